#include "server/protocol/reply.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ibid::serve {

namespace {

// An end that has no answer.
Fault fault_of_end(const Status& status, const Heard& heard) {
  Fault fault = fault_of(status);
  fault.retry_after = heard.retry_after;
  return fault;
}

// What the answers cost, for the log. Several answers to one request share the reading of its prompt.
http::AnswerFigures figures_of(const Heard& heard, const Status& status) {
  http::AnswerFigures figures{.model = heard.model, .n_prompt = heard.n_prompt,
                             .queue_ms = std::chrono::duration<double, std::milli>(heard.queued).count()};
  size_t n_gaps = 0;
  for (const Answer& answer : heard.answers) {
    const size_t n = answer.usage.n_decoded;
    figures.n_decoded += n;
    if (n < 2) continue;
    n_gaps += n - 1;
    figures.itl_ms += answer.timings.decode_ms;
  }
  if (n_gaps > 0) figures.itl_ms /= static_cast<double>(n_gaps);
  if (heard.answers.empty()) return figures;
  const Turn& first = heard.answers.front();
  figures.n_cached = first.usage.n_cached;
  figures.n_prefilled = first.usage.n_prefilled;
  figures.prefill_ms = first.timings.prefill_ms;
  figures.decode_ms = first.timings.decode_ms;
  figures.ttft_ms = first.timings.ttft_ms;
  if (!status.ok()) return figures;
  for (const Answer& answer : heard.answers) figures.ended.push_back(finish_reason_name(answer.finish_reason));
  return figures;
}

}  // namespace

WholeReply::WholeReply(http::ExchangePtr exchange, size_t n, ErrorStyle style, Make make, Later later)
    : exchange_(std::move(exchange)), style_(style), make_(std::move(make)), later_(std::move(later)) {
  heard_.answers.resize(n);
}

void WholeReply::begin(const std::string& model, size_t n_prompt, std::shared_ptr<const Tokenizer> tokenizer) {
  heard_.model = model;
  heard_.tokenizer = std::move(tokenizer);
  heard_.n_prompt = n_prompt;
}

void WholeReply::logprobs(size_t i, std::span<const TokenLogprobs> tokens) {
  if (i != 0) return;
  logprobs_.insert(logprobs_.end(), tokens.begin(), tokens.end());
  n_logprobs_ += tokens.size();
}

void WholeReply::content(size_t i, std::string_view text) {
  if (i != 0 || text.empty()) return;
  heard_.content_logprobs.insert(heard_.content_logprobs.end(), logprobs_.begin(), logprobs_.end());
  logprobs_.clear();
  ends_in_content_ = true;
}

void WholeReply::reasoning(size_t i, std::string_view text) {
  if (i != 0 || text.empty()) return;
  logprobs_.clear();
  ends_in_content_ = false;
}

void WholeReply::tool_call(size_t i, size_t, std::string_view, std::string_view) {
  if (i != 0) return;
  logprobs_.clear();
  ends_in_content_ = false;
}

void WholeReply::answer(size_t i, const Answer& answer) {
  heard_.answers.at(i) = answer;
  if (i != 0 || !ends_in_content_ || !answer.tool_calls.empty()) return;
  const size_t n_taken = std::min(n_logprobs_ - logprobs_.size(), answer.logprobs.size());
  heard_.content_logprobs.insert(heard_.content_logprobs.end(),
                                 answer.logprobs.begin() + static_cast<std::ptrdiff_t>(n_taken), answer.logprobs.end());
}

void WholeReply::end(const Status& status) {
  if (!later_) return tell_end(status);
  later_([self = shared_from_this(), status] { self->tell_end(status); });
}

void WholeReply::tell_end(const Status& status) {
  exchange_->set_figures(figures_of(heard_, status));
  if (status.ok()) {
    exchange_->respond({.body = json_to_string(make_(heard_))});
  } else {
    exchange_->respond(fault_response(fault_of_end(status, heard_), style_));
  }
  exchange_.reset();
}

StreamReply::StreamReply(http::ExchangePtr exchange, size_t n, ErrorStyle style, StreamForm form,
                         std::string keep_alive)
    : exchange_(std::move(exchange)), style_(style), form_(form), keep_alive_(std::move(keep_alive)), told_(n) {
  heard_.answers.resize(n);
}

void StreamReply::begin(const std::string& model, size_t n_prompt, std::shared_ptr<const Tokenizer> tokenizer) {
  heard_.model = model;
  heard_.tokenizer = std::move(tokenizer);
  heard_.n_prompt = n_prompt;
  is_open_ = true;
  const bool is_events = form_ == StreamForm::kEvents;
  exchange_->begin_stream(200, is_events ? "text/event-stream" : "application/x-ndjson",
                          {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}});
  if (is_events) exchange_->set_keep_alive(keep_alive_, kKeepAlive);
  opened();
}

void StreamReply::logprobs(size_t i, std::span<const TokenLogprobs> tokens) {
  std::vector<TokenLogprobs>& heard = told_.at(i).logprobs;
  heard.insert(heard.end(), tokens.begin(), tokens.end());
}

std::vector<TokenLogprobs> StreamReply::take_logprobs(size_t i) {
  Told& told = told_.at(i);
  told.n_logprobs_taken += told.logprobs.size();
  return std::exchange(told.logprobs, {});
}

std::vector<TokenLogprobs> StreamReply::take_last_logprobs(size_t i, const Answer& answer) {
  const size_t n_taken = std::min(told_.at(i).n_logprobs_taken, answer.logprobs.size());
  return {answer.logprobs.begin() + static_cast<std::ptrdiff_t>(n_taken), answer.logprobs.end()};
}

void StreamReply::content(size_t i, std::string_view text) {
  if (!text.empty()) said(i, text);
}

void StreamReply::reasoning(size_t i, std::string_view text) {
  if (!text.empty()) thought(i, text);
}

void StreamReply::tool_call(size_t i, size_t call, std::string_view id, std::string_view name) {
  told_.at(i).n_calls = call + 1;
  called(i, call, id, name);
}

void StreamReply::tool_arguments(size_t i, size_t call, std::string_view part) {
  if (!part.empty()) call_part(i, call, part);
}

void StreamReply::answer(size_t i, const Answer& answer) {
  for (size_t call = told_.at(i).n_calls; call < answer.tool_calls.size(); ++call) {
    called(i, call, answer.tool_calls[call].id, answer.tool_calls[call].name);
    call_part(i, call, answer.tool_calls[call].arguments);
  }
  heard_.answers.at(i) = answer;
  answered(i, answer);
}

void StreamReply::end(const Status& status) {
  if (!later_) return tell_end(status);
  later_([self = shared_from_this(), status] { self->tell_end(status); });
}

void StreamReply::tell_end(const Status& status) {
  exchange_->set_figures(figures_of(heard_, status));
  if (!is_open_) {
    // A stream that never opened is a plain response; an end without a begin and without an error has no answer.
    CHECK(!status.ok());
    exchange_->respond(fault_response(fault_of_end(status, heard_), style_));
  } else {
    if (status.ok()) {
      finished();
    } else {
      failed(fault_of(status));
    }
    exchange_->end_stream();
  }
  exchange_.reset();
}

void StreamReply::send(const Json& json) {
  const bool is_events = form_ == StreamForm::kEvents;
  send_bytes(is_events ? "data: " + json_to_string(json) + "\n\n" : json_to_string(json) + "\n");
}

void StreamReply::send_event(std::string_view name, const Json& json) {
  send_bytes("event: " + std::string(name) + "\ndata: " + json_to_string(json) + "\n\n");
}

// Whether anybody reads it is the exchange's business: gone() stops the answer.
void StreamReply::send_bytes(std::string bytes) { (void)exchange_->send(std::move(bytes)); }

}  // namespace ibid::serve
