#include "server/protocol/reply.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "runtime/generate/logprobs_json.h"
#include "tokenizer/tokenizer.h"

namespace ibid::serve {

namespace {

// Returns usage and timings for the log. If a request has several answers, they share the prefill of its prompt.
http::AnswerFigures figures_of(const Heard& heard, const Status& status) {
  http::AnswerFigures figures{.model = heard.model,
                              .n_prompt = heard.n_prompt,
                              .queue_ms = std::chrono::duration<double, std::milli>(heard.queued).count()};
  add_ignored(figures, heard.ignored);
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

double per_token(size_t n, double ms) { return n > 0 ? ms / static_cast<double>(n) : 0; }

Json timings_json(const Usage& usage, double prefill_ms, double decode_ms) {
  const size_t n_steps = usage.n_decoded == 0 ? 0 : usage.n_decoded - 1;
  Json json = {{"cache_n", usage.n_cached},
               {"prompt_n", usage.n_prefilled},
               {"prompt_ms", prefill_ms},
               {"prompt_per_token_ms", per_token(usage.n_prefilled, prefill_ms)},
               {"prompt_per_second", per_second(usage.n_prefilled, prefill_ms)},
               {"predicted_n", usage.n_decoded},
               {"predicted_ms", decode_ms},
               {"predicted_per_token_ms", per_token(n_steps, decode_ms)},
               {"predicted_per_second", per_second(n_steps, decode_ms)}};
  if (usage.n_drafted > 0) json.update({{"draft_n", usage.n_drafted}, {"draft_n_accepted", usage.n_accepted}});
  return json;
}

}  // namespace

ExchangeReply::ExchangeReply(http::ExchangePtr exchange, size_t n)
    : exchange_(std::move(exchange)), style_(style_of_path(exchange_->request().path)) {
  heard_.answers.resize(n);
  heard_.prompt_scores.resize(n);
  heard_.prompt_ids.resize(n);
}

void ExchangeReply::begin(const std::string& model, size_t n_prompt, std::shared_ptr<const Tokenizer> tokenizer) {
  heard_.model = model;
  heard_.tokenizer = std::move(tokenizer);
  heard_.n_prompt = n_prompt;
}

void ExchangeReply::end(const Status& status) {
  if (!later_) return finish(status);
  later_([self = shared_from_this(), status] { self->finish(status); });
}

void ExchangeReply::finish(const Status& status) {
  exchange_->set_figures(figures_of(heard_, status));
  respond(status);
  exchange_.reset();
}

void ExchangeReply::respond_error(const Status& status) {
  Fault fault = fault_of(status);
  fault.retry_after = heard_.retry_after;
  exchange_->respond(fault_response(fault, style_));
}

void WholeReply::logprobs(size_t i, std::span<const TokenLogprobs> tokens) {
  if (i != 0) return;
  logprobs_.insert(logprobs_.end(), tokens.begin(), tokens.end());
  n_logprobs_ += tokens.size();
}

void WholeReply::content(size_t i, std::string_view) {
  if (i != 0) return;
  heard_.content_logprobs.insert(heard_.content_logprobs.end(), logprobs_.begin(), logprobs_.end());
  logprobs_.clear();
  ends_in_content_ = true;
}

void WholeReply::reasoning(size_t i, std::string_view) {
  if (i != 0) return;
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

void WholeReply::respond(const Status& status) {
  if (!status.ok()) return respond_error(status);
  exchange_->respond({.body = json_to_string(make_(heard_))});
}

StreamReply::StreamReply(http::ExchangePtr exchange, size_t n, std::string keep_alive)
    : ExchangeReply(std::move(exchange), n), keep_alive_(std::move(keep_alive)), streamed_(n) {}

void StreamReply::begin(const std::string& model, size_t n_prompt, std::shared_ptr<const Tokenizer> tokenizer) {
  ExchangeReply::begin(model, n_prompt, std::move(tokenizer));
  is_open_ = true;
  const bool is_lines = style_ == ErrorStyle::kOllama;
  exchange_->begin_stream(200, is_lines ? "application/x-ndjson" : "text/event-stream",
                          {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}});
  if (!is_lines) exchange_->set_keep_alive(keep_alive_, kKeepAlive);
  opened();
}

void StreamReply::logprobs(size_t i, std::span<const TokenLogprobs> tokens) {
  std::vector<TokenLogprobs>& heard = streamed_.at(i).logprobs;
  heard.insert(heard.end(), tokens.begin(), tokens.end());
}

std::vector<TokenLogprobs> StreamReply::take_logprobs(size_t i) {
  StreamedAnswer& streamed = streamed_.at(i);
  streamed.n_logprobs_taken += streamed.logprobs.size();
  return std::exchange(streamed.logprobs, {});
}

std::vector<TokenLogprobs> StreamReply::take_last_logprobs(size_t i, const Answer& answer) {
  const size_t n_taken = std::min(streamed_.at(i).n_logprobs_taken, answer.logprobs.size());
  return {answer.logprobs.begin() + static_cast<std::ptrdiff_t>(n_taken), answer.logprobs.end()};
}

void StreamReply::tool_call(size_t i, size_t call, std::string_view id, std::string_view name) {
  streamed_.at(i).n_calls = call + 1;
  called(i, call, id, name);
}

void StreamReply::answer(size_t i, const Answer& answer) {
  for (size_t call = streamed_.at(i).n_calls; call < answer.tool_calls.size(); ++call) {
    called(i, call, answer.tool_calls[call].id, answer.tool_calls[call].name);
    tool_arguments(i, call, answer.tool_calls[call].arguments);
  }
  heard_.answers.at(i) = answer;
  answered(i, answer);
}

void StreamReply::respond(const Status& status) {
  if (!is_open_) {
    // The stream was not opened, so this is a plain response: end() without begin() always has an error.
    CHECK(!status.ok());
    return respond_error(status);
  }
  if (status.ok()) {
    finished();
  } else {
    failed(fault_of(status));
  }
  exchange_->end_stream();
}

void StreamReply::emit(const Json& json) {
  const bool is_lines = style_ == ErrorStyle::kOllama;
  send_bytes(is_lines ? json_to_string(json) + "\n" : "data: " + json_to_string(json) + "\n\n");
}

void StreamReply::emit_named(const Json& event) {
  send_bytes("event: " + event["type"].get_ref<const std::string&>() + "\ndata: " + json_to_string(event) + "\n\n");
}

// The result may be ignored: if the client has left, gone() of the exchange already stops the answer.
void StreamReply::send_bytes(std::string bytes) { (void)exchange_->send(std::move(bytes)); }

TokenCounts count_tokens(std::span<const Answer> answers, const Tokenizer* tokenizer) {
  TokenCounts counts;
  if (answers.empty()) return counts;
  counts.n_prompt = answers.front().usage.n_prompt;
  counts.n_cached = answers.front().usage.n_cached;
  for (const Answer& answer : answers) {
    counts.n_completion += answer.usage.n_decoded;
    if (tokenizer != nullptr && !answer.reasoning.empty()) {
      counts.n_reasoning += tokenizer->encode(answer.reasoning, TextOrigin::kInput).size();
    }
  }
  return counts;
}

Json input_details(const TokenCounts& counts) {
  return {{"cached_tokens", counts.n_cached}, {"cache_write_tokens", counts.n_written()}};
}

Json openai_usage(const TokenCounts& counts) {
  return {{"prompt_tokens", counts.n_prompt},
          {"completion_tokens", counts.n_completion},
          {"total_tokens", counts.n_prompt + counts.n_completion},
          {"prompt_tokens_details", input_details(counts)},
          {"completion_tokens_details", {{"reasoning_tokens", counts.n_reasoning}}}};
}

Json llama_timings(const Turn& turn) {
  return timings_json(turn.usage, turn.timings.prefill_ms, turn.timings.decode_ms + turn.timings.sample_ms);
}

void StreamProgress::prefill(size_t n_done, size_t n_total) {
  if (!std::exchange(has_begun_, true)) usage_.n_cached = n_done;
  usage_.n_prompt = n_total;
  usage_.n_prefilled = n_done - std::min(n_done, usage_.n_cached);
  if (usage_.n_prefilled > 0) prefill_ms_ = milliseconds_since(clock_, begin_ns_);
}

void StreamProgress::decode(size_t n_tokens) {
  if (n_tokens == 0) return;
  if (usage_.n_decoded == 0) first_token_ns_ = clock_.steady_ns();
  usage_.n_decoded += n_tokens;
  decode_ms_ = milliseconds_since(clock_, first_token_ns_);
}

Json StreamProgress::prompt_json() const {
  return {{"total", usage_.n_prompt},
          {"cache", usage_.n_cached},
          {"processed", usage_.n_cached + usage_.n_prefilled},
          {"time_ms", static_cast<int64_t>(milliseconds_since(clock_, begin_ns_))}};
}

Json StreamProgress::timings() const { return timings_json(usage_, prefill_ms_, decode_ms_); }

std::string_view limit_of(const Answer& answer) {
  if (answer.finish_reason == FinishReason::kRepetition) return "repetition";
  if (answer.finish_reason != FinishReason::kLength) return {};
  if (answer.max_tokens == 0 || answer.usage.n_decoded < answer.max_tokens) return "context";
  return answer.is_guarded ? "quarter_of_context" : "max_tokens";
}

Json ibid_details(const Answer& turn, const IgnoredParts& ignored) {
  Json json = {{"prefilled", turn.usage.n_prefilled},
               {"cached", turn.usage.n_cached},
               {"from_disk", turn.usage.n_from_disk},
               {"read_again", turn.usage.n_reprefilled},
               {"ttft_ms", turn.timings.ttft_ms},
               {"total_ms", turn.timings.total_ms},
               {"seed", turn.seed},
               {"finish_reason", finish_reason_name(turn.finish_reason)}};
  if (const std::string_view limit = limit_of(turn); !limit.empty()) json["ended_by"] = limit;
  if (!turn.stop_string.empty()) json["stop_string"] = turn.stop_string;
  if (turn.lost_prefix) {
    const LostPrefix& lost = *turn.lost_prefix;
    json["lost_prefix"] = {{"tokens", lost.n_tokens},
                           {"message", lost.message},
                           {"byte", lost.byte},
                           {"token", lost.token},
                           {"cause", lost_cause_text(lost.cause)}};
  }
  if (turn.left_out.any()) {
    json["left_out"] = {{"messages", turn.left_out.n_messages}, {"bytes", turn.left_out.n_bytes}};
  }
  if (!ignored.empty()) json["ignored"] = ignored_json(ignored);
  return json;
}

void add_ignored(http::AnswerFigures& figures, const IgnoredParts& ignored) {
  for (const IgnoredPart& part : ignored) {
    if (part.is_clients_own) {
      ++figures.n_unknown_fields;
    } else {
      figures.ignored.push_back(part.field);
    }
  }
}

Json ignored_json(const IgnoredParts& ignored) {
  Json list = Json::array();
  for (const IgnoredPart& part : ignored) {
    Json one = {{"field", part.field}, {"reason", part.reason}};
    if (!part.name.empty()) one["name"] = part.name;
    list.push_back(std::move(one));
  }
  return list;
}

Json usage_so_far(size_t n_prompt, size_t n_completion) {
  return {{"prompt_tokens", n_prompt}, {"completion_tokens", n_completion}, {"total_tokens", n_prompt + n_completion}};
}

std::string prompt_text(const Heard& heard, size_t i) {
  return heard.tokenizer == nullptr ? std::string() : heard.tokenizer->decode(heard.prompt_ids.at(i));
}

Json ids_of(std::span<const TokenLogprobs> tokens) {
  Json ids = Json::array();
  for (const TokenLogprobs& token : tokens) ids.push_back(token.id);
  return ids;
}

Json last_ids_of(std::span<const TokenLogprobs> tokens, const Answer& answer) {
  Json ids = ids_of(tokens);
  if (answer.end_of_turn) ids.push_back(*answer.end_of_turn);
  return ids;
}

void add_costs(Json& json, const Heard& heard) {
  json["usage"] = openai_usage(count_tokens(heard.answers, heard.tokenizer.get()));
  json["timings"] = llama_timings(heard.answers.front());
  json["ibid"] = ibid_details(heard.answers.front(), heard.ignored);
}

std::string openai_finish_reason(const Answer& answer) {
  switch (answer.finish_reason) {
    case FinishReason::kLength:
    case FinishReason::kCancelled:
    case FinishReason::kRepetition: return "length";
    default: return answer.tool_calls.empty() ? "stop" : "tool_calls";
  }
}

Json prompt_logprobs_json(const PromptScores* scores, size_t n_top, const Tokenizer* tokenizer) {
  if (scores == nullptr || tokenizer == nullptr) return {};
  Json all = Json::array({Json()});
  const auto entry = [&](TokenId id, double logprob, size_t rank) -> Json {
    return {{"logprob", logprob}, {"rank", rank}, {"decoded_token", tokenizer->token_bytes(id)}};
  };
  for (size_t i = 0; i < scores->scored.tokens.size(); ++i) {
    const TokenLogprobs& token = scores->scored.tokens[i];
    Json place = Json::object();
    place[std::to_string(token.id)] = entry(token.id, token.logprob, scores->scored.ranks[i]);
    for (size_t rank = 1; rank <= std::min(n_top, token.top.size()); ++rank) {
      const auto& [id, logprob] = token.top[rank - 1];
      if (id != token.id) place[std::to_string(id)] = entry(id, logprob, rank);
    }
    all.push_back(std::move(place));
  }
  return all;
}

std::string name_by_id(TokenId id) { return "token_id:" + std::to_string(id); }

Json logprobs_of(std::span<const TokenLogprobs> tokens, const Tokenizer* tokenizer, bool names_by_id) {
  if (tokens.empty() || tokenizer == nullptr) return {};
  Json all = logprobs_json(tokens, *tokenizer);
  if (!names_by_id) return all;
  const auto rename = [](Json& one) { one["token"] = name_by_id(one["id"].get<TokenId>()); };
  for (Json& one : all["content"]) {
    rename(one);
    for (Json& other : one["top_logprobs"]) rename(other);
  }
  return all;
}

}  // namespace ibid::serve
