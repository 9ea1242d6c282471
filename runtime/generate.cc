#include "runtime/generate.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "runtime/repetition.h"
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
      : decoder_(tokenizer), stops_(std::move(stops)), request_(request) {}

  // Takes an id; true when a stop string is complete. The caller hears of the text in emit().
  bool push(TokenId id) {
    ids_.push_back(id);
    const std::string piece = decoder_.push(id);
    n_decoded_ += piece.size();
    text_ends_.push_back(n_decoded_);
    leaves_open_.push_back(decoder_.is_open());
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
      out.end_of_turn.reset();  // it stood behind what goes
      drop_ids_behind(text_.size());
    }
    out.ids = std::move(ids_);
    if (!out.logprobs.empty()) out.logprobs.resize(out.ids.size());
    out.text_ends = std::move(text_ends_);
    out.text = std::move(text_);
  }

 private:
  bool show(std::string_view piece) {
    const StopDetector::Step step = stops_.push(piece);
    text_ += step.text;
    return step.stopped;
  }

  // Of the ids only those stay whose text stays whole. One that leaves a character open goes: what became of that
  // character is part of what goes.
  void drop_ids_behind(size_t n_bytes) {
    while (!ids_.empty() && (text_ends_.back() > n_bytes || leaves_open_.back())) {
      ids_.pop_back();
      text_ends_.pop_back();
      leaves_open_.pop_back();
    }
  }

  StreamDecoder decoder_;
  StopDetector stops_;
  const GenerateRequest& request_;
  Tokens ids_;
  std::vector<size_t> text_ends_;
  std::vector<bool> leaves_open_;
  size_t n_decoded_ = 0;  // bytes out of the decoder, held back or not
  std::string text_;
  size_t n_emitted_ = 0;
};

// One pass over `tokens` or a first part of them, counted. Returns how many.
Result<size_t> feed(Scheduler::Stream& stream, KvCacheEntry& entry, TokenSpan tokens, WantLogits want,
                    std::stop_token stop, Logits& logits, WorkCounters& work) {
  if (stop.stop_requested()) return {ErrorCode::kCancelled, "cancelled"};
  TRY_ASSIGN(const size_t n_rows, stream.forward(entry, tokens, want, std::move(stop), logits));
  ++work.n_forward;
  work.n_rows += n_rows;
  return n_rows;
}

Status prefill(Scheduler::Stream& stream, KvCacheEntry& entry, const GenerateRequest& request, Clock& clock,
               Logits& logits, Timings& timings, WorkCounters& work) {
  const size_t n = request.prefill.size();
  for (size_t done = 0; done < n;) {
    {
      const Stopwatch watch(clock, timings.prefill_ms);
      const TokenSpan rest = request.prefill.subspan(done);
      TRY_ASSIGN(const size_t n_rows, feed(stream, entry, rest, WantLogits::kLast, request.stop, logits, work));
      done += n_rows;
    }
    if (request.on_prefill) request.on_prefill(done, n);
  }
  return {};
}

// Samples token by token, and feeds each for the logits of the next.
class Decoding {
 public:
  // `logits`: of the position behind the entry's last.
  Decoding(Scheduler::Stream& stream, KvCacheEntry& entry, const GenerateRequest& request, size_t vocab_size,
           Sampler& sampler, Logits& logits, Clock& clock, Timings& timings, WorkCounters& work)
      : stream_(stream), entry_(entry), request_(request), vocab_size_(vocab_size), sampler_(sampler),
        logits_(logits), clock_(clock), timings_(timings), work_(work), length_(entry.length()),
        next_tokens_(request.constraint, request.stop_ids, request.min_tokens) {}

  // Until a stop. Whatever comes of it, the entry holds afterwards what was fed without drafts.
  Status run(ReplyText& reply, Generation& out) {
    const Status status = sample_and_feed(reply, out);
    entry_.slice_to_length(length_);
    return status;
  }

 private:
  Status sample_and_feed(ReplyText& reply, Generation& out) {
    for (;;) {
      if (request_.stop.stop_requested()) {
        if (out.n_sampled == 0) return cancelled_before_output();
        out.finish_reason = FinishReason::kCancelled;
        return {};
      }
      TRY_ASSIGN(const Drawn drawn, sample(reply, out));
      reply.emit();
      if (drawn.ends) return {};
      if (out.n_sampled == request_.max_tokens || length_ == stream_.model().max_seq_len()) {
        out.finish_reason = FinishReason::kLength;
        return {};
      }
      const Status status = next_logits(drawn.id, out);
      if (status.code() == ErrorCode::kCancelled) {
        out.finish_reason = FinishReason::kCancelled;
        return {};
      }
      TRY(status);
    }
  }

  struct Drawn {
    TokenId id = 0;
    bool ends = false;  // the turn: by a stop id, a stop string or a repetition
  };

  // Draws an id and makes it text.
  Result<Drawn> sample(ReplyText& reply, Generation& out) {
    const Stopwatch watch(clock_, timings_.sample_ms);
    // Rows beyond the vocabulary are padding of the weights.
    std::span<const float> row = out.n_sampled == 0 ? std::span<const float>(*out.prompt_logits) : logits_.row(row_);
    row = row.first(std::min(row.size(), vocab_size_));
    TRY_ASSIGN(const std::span<const float> allowed, next_tokens_.restrict(row));
    TRY_ASSIGN(const TokenId id, sampler_.sample(allowed));
    sampler_.push(id);
    next_tokens_.push(id);
    if (++out.n_sampled == 1) timings_.ttft_ms = milliseconds_since(clock_, request_.start_ns);
    if (request_.drafter != nullptr) request_.drafter->push(id);
    if (!next_tokens_.is_stop_id(id)) {
      if (request_.n_logprobs) out.logprobs.push_back(token_logprobs(row, id, *request_.n_logprobs));
      const bool repeats = request_.stop_repetition && repetition_.push(id);
      if (repeats) out.finish_reason = FinishReason::kRepetition;
      return Drawn{id, reply.push(id) || repeats};
    }
    out.end_of_turn = id;
    return Drawn{id, true};
  }

  // Makes row_ the logits behind `id`: those of the last pass when it was drafted, else by a pass.
  Status next_logits(TokenId id, Generation& out) {
    const Stopwatch watch(clock_, timings_.decode_ms);
    // As in front of a pass.
    if (request_.stop.stop_requested()) return {ErrorCode::kCancelled, "cancelled"};
    if (row_ < draft_.size() && draft_[row_] == id) {
      ++row_;
      ++length_;
      ++out.n_accepted;
      return {};
    }
    entry_.slice_to_length(length_);  // what stands there was drafted behind another id
    row_ = 0;
    draft_.clear();
    if (request_.drafter != nullptr) {
      request_.drafter->propose(n_drafts_at_most(out.n_sampled), request_.stop_ids, draft_);
    }
    Status status = feed_with_draft(id);
    if (!status.ok() && status.code() != ErrorCode::kCancelled && !draft_.empty()) {
      // Of the id alone this says nothing.
      draft_.clear();
      status = feed_with_draft(id);
    }
    TRY(status);
    ++length_;
    out.n_drafted += draft_.size();
    return {};
  }

  Status feed_with_draft(TokenId id) {
    fed_.assign(1, id);
    fed_.insert(fed_.end(), draft_.begin(), draft_.end());
    const WantLogits want = draft_.empty() ? WantLogits::kLast : WantLogits::kAll;
    TRY_ASSIGN(const size_t n_rows, feed(stream_, entry_, fed_, want, request_.stop, logits_, work_));
    CHECK_EQ(n_rows, fed_.size()) << "a draft is fed as a whole";
    return {};
  }

  // Behind an id at position length_: as many as could be fed one by one before the turn has to end, in one
  // pass, without a page that this id does not need.
  size_t n_drafts_at_most(size_t n_sampled) const {
    const size_t n_rows = std::min({request_.max_tokens - n_sampled, stream_.model().max_seq_len() - length_,
                                    kPagePositions - length_ % kPagePositions, stream_.model().max_chunk()});
    return n_rows - 1;
  }

  Scheduler::Stream& stream_;
  KvCacheEntry& entry_;
  const GenerateRequest& request_;
  const size_t vocab_size_;
  Sampler& sampler_;
  Logits& logits_;
  Clock& clock_;
  Timings& timings_;
  WorkCounters& work_;

  size_t length_;               // positions that were fed and are certain; the entry may hold drafts beyond
  size_t row_ = 0;              // of logits_: behind position length_ - 1
  Tokens draft_;                // fed behind the last id; logits row i + 1 is behind draft_[i]
  Tokens fed_;                  // of the last pass
  NextTokens next_tokens_;
  RepetitionDetector repetition_;  // of the ids so far; kept up only where it may end the answer
};

}  // namespace

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kStopString: return "stop_string";
    case FinishReason::kCancelled: return "cancelled";
    case FinishReason::kRepetition: return "repetition";
  }
  return "unknown";
}

Result<Generation> generate(Scheduler::Stream& stream, const Tokenizer& tokenizer, KvCacheEntry& entry,
                            const GenerateRequest& request, Sampler& sampler, StopDetector stops, Clock& clock,
                            Timings& timings, WorkCounters& work) {
  CHECK(request.max_tokens > 0);
  CHECK(!request.prefill.empty() || request.prompt_logits != nullptr);
  const size_t max_seq_len = stream.model().max_seq_len();
  if (const size_t n_prompt = entry.length() + request.prefill.size(); n_prompt > max_seq_len) {
    return {ErrorCode::kContextFull, "the prompt has " + std::to_string(n_prompt) +
                                         " tokens, the context has room for " + std::to_string(max_seq_len)};
  }
  Logits logits;
  const Status prefilled = prefill(stream, entry, request, clock, logits, timings, work);
  if (prefilled.code() == ErrorCode::kCancelled) return cancelled_before_output();
  TRY(prefilled);
  Generation out;
  out.prompt_logits = request.prompt_logits;
  if (out.prompt_logits == nullptr || !request.prefill.empty()) {
    out.prompt_logits = std::make_shared<const std::vector<float>>(logits.row(0).begin(), logits.row(0).end());
  }
  ReplyText reply(tokenizer, std::move(stops), request);
  Decoding decoding(stream, entry, request, tokenizer.vocab_size(), sampler, logits, clock, timings, work);
  TRY(decoding.run(reply, out));
  reply.finish(out);
  return out;
}

}  // namespace ibid
