#include "runtime/generate.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "runtime/stopwatch.h"
#include "tokenizer/stream_decoder.h"

namespace ibid {
namespace {

Status cancelled_before_output() {
  return {ErrorCode::kCancelled, "cancelled before the first token of the answer"};
}

// The sampled ids as text, and what of it may be shown.
class ReplyText {
 public:
  ReplyText(const Tokenizer& tokenizer, StopDetector stops, const GenerateRequest& request)
      : decoder_(tokenizer), tokenizer_(tokenizer), stops_(std::move(stops)), request_(request) {}

  // Takes an id; true when a stop string is complete. The caller hears of the text in emit().
  bool push(TokenId id) {
    ids_.push_back(id);
    const std::string piece = decoder_.push(id);
    n_decoded_ += piece.size();
    text_ends_.push_back(n_decoded_);
    return show(piece);
  }

  void emit() {
    const std::string_view fresh = std::string_view(text_).substr(n_emitted_);
    n_emitted_ = text_.size();
    if (!fresh.empty() && request_.on_text) request_.on_text(fresh);
  }

  void finish(Generation& out) {
    if (stops_.found().empty()) {
      const std::string rest = decoder_.finish();
      n_decoded_ += rest.size();
      if (!text_ends_.empty()) text_ends_.back() = n_decoded_;
      if (!show(rest)) text_ += stops_.finish();
    }
    emit();
    out.stop_string = stops_.found();
    if (!out.stop_string.empty()) {
      out.finish_reason = FinishReason::kStopString;
      drop_ids_behind(text_.size());
    }
    out.ids = std::move(ids_);
    out.text_ends = std::move(text_ends_);
    out.text = std::move(text_);
  }

 private:
  bool show(std::string_view piece) {
    const StopDetector::Step step = stops_.push(piece);
    text_ += step.text;
    return step.stopped;
  }

  // Of the ids only those stay whose text stays whole; an id that holds the beginning of a character that
  // goes has no text of its own.
  void drop_ids_behind(size_t n_bytes) {
    const auto keeps = [&](size_t i) {
      const bool open = text_ends_[i] == (i == 0 ? 0 : text_ends_[i - 1]) && !tokenizer_.is_special(ids_[i]);
      return text_ends_[i] <= n_bytes && !open;
    };
    while (!ids_.empty() && !keeps(ids_.size() - 1)) {
      ids_.pop_back();
      text_ends_.pop_back();
    }
  }

  StreamDecoder decoder_;
  const Tokenizer& tokenizer_;
  StopDetector stops_;
  const GenerateRequest& request_;
  Tokens ids_;
  std::vector<size_t> text_ends_;
  size_t n_decoded_ = 0;  // bytes out of the decoder, held back or not
  std::string text_;
  size_t n_emitted_ = 0;
};

// One pass over `tokens`, counted.
Status feed(ForwardQueue& queue, KvCacheEntry& entry, TokenSpan tokens, WantLogits want, std::stop_token stop,
            Logits& logits, WorkCounters& work) {
  if (stop.stop_requested()) return {ErrorCode::kCancelled, "cancelled"};
  const SequenceChunk chunk{&entry, tokens, want};
  TRY(queue.forward({&chunk, 1}, std::move(stop), logits));
  ++work.n_forward;
  work.n_rows += tokens.size();
  return {};
}

Status prefill(ForwardQueue& queue, KvCacheEntry& entry, const GenerateRequest& request, Clock& clock,
               Logits& logits, Timings& timings, WorkCounters& work) {
  const size_t n = request.prefill.size();
  for (size_t done = 0; done < n;) {
    const size_t n_rows = std::min(queue.model().max_chunk(), n - done);
    const WantLogits want = done + n_rows == n ? WantLogits::kLast : WantLogits::kNone;
    {
      const Stopwatch watch(clock, timings.prefill_ms);
      TRY(feed(queue, entry, request.prefill.subspan(done, n_rows), want, request.stop, logits, work));
    }
    done += n_rows;
    if (request.on_prefill) request.on_prefill(done, n);
  }
  return {};
}

// `row` in `copy`, with ids that the sampler must not choose.
std::span<const float> without_ids(std::span<const float> row, const std::vector<TokenId>& ids,
                                   std::vector<float>& copy) {
  copy.assign(row.begin(), row.end());
  for (const TokenId id : ids) {
    if (static_cast<size_t>(id) < copy.size()) copy[static_cast<size_t>(id)] = -std::numeric_limits<float>::infinity();
  }
  return copy;
}

}  // namespace

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kStopString: return "stop_string";
    case FinishReason::kCancelled: return "cancelled";
  }
  return "unknown";
}

Result<Generation> generate(ForwardQueue& queue, const Tokenizer& tokenizer, KvCacheEntry& entry,
                            const GenerateRequest& request, Sampler& sampler, StopDetector stops, Clock& clock,
                            Timings& timings, WorkCounters& work) {
  CHECK(!request.prefill.empty() && request.max_tokens > 0);
  const size_t max_seq_len = queue.model().max_seq_len();
  if (const size_t n_prompt = entry.length() + request.prefill.size(); n_prompt > max_seq_len) {
    return {ErrorCode::kContextFull, "the prompt has " + std::to_string(n_prompt) +
                                         " tokens, the context has room for " + std::to_string(max_seq_len)};
  }
  Logits logits;
  const Status prefilled = prefill(queue, entry, request, clock, logits, timings, work);
  if (prefilled.code() == ErrorCode::kCancelled) return cancelled_before_output();
  TRY(prefilled);
  Generation out;
  ReplyText reply(tokenizer, std::move(stops), request);
  std::vector<float> allowed;  // of without_ids
  for (;;) {
    if (request.stop.stop_requested()) {
      if (out.n_sampled == 0) return cancelled_before_output();
      out.finish_reason = FinishReason::kCancelled;
      break;
    }
    TokenId id = 0;
    bool stopped = false;
    {
      const Stopwatch watch(clock, timings.sample_ms);
      // Rows beyond the vocabulary are padding of the weights.
      std::span<const float> row = logits.row(0).first(std::min(logits.row(0).size(), tokenizer.vocab_size()));
      if (out.n_sampled < request.min_tokens) row = without_ids(row, request.stop_ids, allowed);
      TRY_ASSIGN(id, sampler.sample(row));
      if (++out.n_sampled == 1) timings.ttft_ms = milliseconds_since(clock, request.start_ns);
      if (std::find(request.stop_ids.begin(), request.stop_ids.end(), id) != request.stop_ids.end()) {
        out.end_of_turn = id;
      } else {
        stopped = reply.push(id);
      }
    }
    reply.emit();
    if (out.end_of_turn || stopped) break;
    if (out.n_sampled == request.max_tokens || entry.length() == max_seq_len) {
      out.finish_reason = FinishReason::kLength;
      break;
    }
    const Stopwatch watch(clock, timings.decode_ms);
    const Status status = feed(queue, entry, {&id, 1}, WantLogits::kLast, request.stop, logits, work);
    if (status.code() == ErrorCode::kCancelled) {
      out.finish_reason = FinishReason::kCancelled;
      break;
    }
    TRY(status);
  }
  reply.finish(out);
  return out;
}

}  // namespace ibid
