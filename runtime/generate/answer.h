// Answer: one running answer on one entry. It waits for a prefix that another answer is prefilling, prefills the rest
// of its prompt, and then samples token by token until a stop; computing a token gives the logits of the next. It
// handles tokens, text and stops, not messages or templates. It is a state machine that the scheduler's compute thread
// advances. Events are queued for the owner, who polls them on its own thread while the next pass runs.
//
// With a drafter, a pass takes the sampled token and tokens that are likely to follow it, and verifies these. Each
// position is sampled from its logits in the same way and order as without a drafter, so tokens, text, events, random
// draws and the entry are the same, with fewer passes. Drafts stay within the page of the token before them, so they
// take no additional memory.
//
// Cancellation is checked before every chunk, in every layer of a pass and before every token; the answer ends at the
// current token. With Delivery::kUntilStop, a stop request ends the answer after the last event that the owner took,
// even if more was computed: finish() rolls back tokens, text, counters and indexes to that event, and the entry to the
// event's position or the last position before at which the model can resume. The entry always has KV of a prefix of
// the committed tokens.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cache/pages/kv_cache_entry.h"
#include "ibid/token.h"
#include "runtime/generate/generate.h"
#include "runtime/generate/reply_text.h"
#include "runtime/scheduler/task.h"
#include "sampling/repetition.h"
#include "sampling/sampler.h"
#include "sampling/stop_detector.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

class Answer final : public Task {
 public:
  // Parts shared by all answers of an engine.
  struct Setting {
    const Tokenizer& tokenizer;
    const LanguageModel& model;
    Clock& clock;
  };
  // `entry` must have all positions before request.prompt_begin; the sampler's history must have the whole prompt if
  // the sampler reads one. The setting's parts, entry, the request's drafter and constraint must outlive this object.
  // REQUIRES: max_tokens > 0; tokens to prefill, or prompt_logits.
  Answer(Setting setting, KvCacheEntry& entry, GenerateRequest request, Sampler sampler, StopDetector stops,
         std::shared_ptr<Waker> waker);

  // --- the owner's thread

  // Takes the oldest queued event; nullopt: no event is queued or, with Delivery::kUntilStop, a stop was requested.
  // first_despite_stop: events up to the first piece of text can be taken even then, for an owner of several answers
  // that has already taken text of another one.
  std::optional<TurnEvent> take_event(bool first_despite_stop = false);
  // True if the answer is over and take_event() returns no more.
  bool is_drained(bool first_despite_stop = false);

  // Returns the result. Call once, when the answer is over. Errors: kContextFull if the prompt exceeds the context
  // (with both numbers, before any computation); kCancelled before the first sampled token; kInvalidArgument if the
  // constraint allows no token; those of forward() and sample(); kOutOfMemory of the heap. After an error the entry may
  // have more positions than before, all of them committed and exact.
  Result<Generation> finish();

  // After finish() only.
  const AnswerProgress& progress() const { return now_; }
  size_t n_cached() const { return n_cached_; }  // number of prompt positions whose KV was cached
  bool broke_off() const { return broke_off_; }  // true after out-of-memory: the drafter may be half-changed
  TokenHistory take_history() { return sampler_.take_history(); }
  Tokens take_sampled() { return std::exchange(sampled_, {}); }

 private:
  enum class Stage { kNew, kWaiting, kReading, kDecoding, kOver };

  Action next(SequenceChunk& chunk) noexcept override;
  void computed(size_t n_rows, Status status, const LogitsRows& rows) noexcept override;

  void start();
  void wait_for_others();
  void search();
  void begin_reading();
  TokenSpan unread() const;
  SequenceChunk next_part() const;
  void read(size_t n_rows, const LogitsRows& rows);
  void begin_decoding();
  void decode(std::span<const float> row, const LogitsRows* rows);
  // Returns false if the sampled token, or an error, ended the answer.
  bool sample(std::span<const float> row, TokenId& id);
  void draft_after(TokenId id);
  size_t n_drafts_at_most() const;
  void pass_failed(Status status);
  void emit_text(std::string_view text);
  void emit(TurnEvent event);
  void end(FinishReason reason);
  void end(Status status) noexcept;
  void end_cancelled();
  void break_off() noexcept;
  void take_time(double& sum_ms);
  // True if a stop was requested and the queued events must stay unread (Delivery::kUntilStop).
  bool withholds(bool first_despite_stop) const;
  Status cut_back();

  const Tokenizer& tokenizer_;
  const LanguageModel& model_;
  Clock& clock_;
  KvCacheEntry& entry_;
  GenerateRequest request_;
  Sampler sampler_;
  const StopDetector stops_;
  const size_t n_prompt_;
  const size_t n_before_answer_;  // number of tokens in the sampler's history before the answer
  const size_t n_drafter_;        // number of tokens in the drafter before the answer
  const DraftPolicy policy_before_;

  // Members for the compute thread only, until the answer is over.
  Stage stage_ = Stage::kNew;
  std::unique_ptr<PendingPrefixes::PendingPrefill> pending_prefill_;
  NextTokens next_tokens_;
  ReplyText reply_;
  RepetitionDetector repetition_;  // updated only if a repetition may end the answer
  Tokens sampled_;
  LogprobQueue logprobs_;  // log-probabilities of the tokens in sampled_ except an end of turn, if requested
  Tokens draft_;           // tokens fed after the last token; row i + 1 of the logits is after draft_[i]
  Tokens fed_;             // tokens of the next pass: the last token and its draft
  AnswerProgress now_;
  size_t n_cached_ = 0;
  size_t n_steps_before_ = 0;  // WorkCounters::history_steps before this answer
  int64_t mark_ns_ = 0;        // end of the interval that take_time() counted last
  Generation out_;
  Status status_;
  bool broke_off_ = false;

  std::mutex mutex_;  // guards queued_
  std::deque<AnswerEvent> queued_;

  AnswerProgress taken_;  // progress at the last event that the owner took; used by the owner's thread only
};

// Publishes the computed part of a prompt while it is being prefilled. Call after a pass, with n_unread tokens of the
// prompt left.
void publish(const SharedPrompt& shared, PendingPrefixes::PendingPrefill& pending_prefill, KvCacheEntry& entry,
             const CheckpointPositions& checkpoints, size_t n_unread);

}  // namespace ibid
