// Answer: one answer in progress, over one entry. It waits for a prefix that another answer is just reading, reads
// its prompt, and then samples token by token, feeding each for the logits of the next, until a stop. It knows ids,
// text and stops, and nothing of messages or templates. It is a state machine: the scheduler's compute thread
// advances it, and samples. Events are queued for its owner, who hears of them on a thread of its own while the
// next pass runs.
//
// With a drafter, a pass takes the id that was sampled and the ids that are likely to follow it, and verifies
// these. Each position's id is drawn from its logits in the same way and order as without a drafter, so ids, text,
// events, draws and the entry are the same; only the passes are fewer. Drafts stay within the page of the id in
// front of them, so they take no memory that this id would not.
//
// Cancellation is checked before every chunk, in every layer of a pass and before every token; the answer ends
// where it is. For an owner that hears the answer, the stop token ends it exactly behind what was heard, however
// far the answer had run ahead: finish() cuts ids, text, counters, indexes and the entry back to there; the entry
// further back, where a model cannot go on from there. Whatever happens, the entry holds the first of the ids that were
// fed and committed.
#pragma once

#include <cstddef>
#include <functional>
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
#include "runtime/generate/logprobs_told.h"
#include "runtime/generate/reply_text.h"
#include "runtime/scheduler/task.h"
#include "sampling/repetition.h"
#include "sampling/sampler.h"
#include "sampling/stop_detector.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

class Answer final : public Task {
 public:
  using Listener = std::function<void(const AnswerEvent&)>;

  // What every answer of an engine has in common.
  struct Setting {
    const Tokenizer& tokenizer;
    const LanguageModel& model;
    Clock& clock;
  };
  // `entry` must hold everything in front of the prompt's part in `request`, and the sampler's history the whole
  // prompt if it reads one. The setting's parts, entry, the request's drafter and constraint must outlive it.
  // REQUIRES: max_tokens > 0; something to read, or prompt_logits.
  Answer(Setting setting, KvCacheEntry& entry, GenerateRequest request, Sampler sampler, StopDetector stops,
         std::shared_ptr<Bell> bell);

  // --- the owner's thread

  // Hands over what was queued, in order, up to the moment at which the stop token fired. Returns true when the
  // answer is over and nothing will be queued any more. even_stopped: an answer that was not heard of yet hands
  // over its first piece all the same; this is for an owner of several answers that has heard others.
  bool hear(const Listener& listener, bool even_stopped = false);
  // Takes what was queued. For an owner that reads it whenever it likes, and whose answer, when cancelled, ends
  // where it is.
  std::vector<AnswerEvent> take_events();

  // Returns how the answer ended. Call it once, when the answer is over. An answer that the stop token cancelled
  // ends behind what hear() has handed over; text that was held back there is handed over now.
  // Errors: kContextFull when the prompt exceeds the model's context (both numbers, before anything is computed);
  // kCancelled before the first token was sampled; kInvalidArgument when the constraint allows no token; those of
  // forward() and sample(); kOutOfMemory of the heap. The entry may then hold more positions than before, all of them
  // committed and exact.
  Result<Generation> finish(const Listener& listener = {});

  // For after finish().
  const AnswerProgress& progress() const { return now_; }
  size_t n_cached() const { return n_cached_; }    // positions of the prompt that were not read
  bool broke_off() const { return broke_off_; }    // memory ran out: the drafter may be half-changed
  TokenHistory take_history() { return sampler_.take_history(); }
  Tokens take_sampled() { return std::exchange(sampled_, {}); }
  // The entry as it was before pages that another answer had read took its place; nothing: they did not.
  std::optional<KvCacheEntry> take_replaced() { return std::exchange(replaced_, std::nullopt); }

 private:
  enum class Stage { kNew, kWaiting, kReading, kDecoding, kOver };

  Wish next(SequenceChunk& chunk) noexcept override;
  void fed(size_t n_rows, Status status, const LogitsRows& rows) noexcept override;

  void start();
  void wait_for_others();
  void search();
  void begin_reading();
  TokenSpan unread() const;
  SequenceChunk next_part() const;
  void read(size_t n_rows, const LogitsRows& rows);
  void begin_decoding();
  void decode(std::span<const float> row, const LogitsRows* rows);
  // False: the id that was drawn ended the answer, or an error did.
  bool sample(std::span<const float> row, TokenId& id);
  void draft_behind(TokenId id);
  size_t n_drafts_at_most() const;
  void pass_failed(Status status);
  void tell_text(std::string_view text);
  void tell(AnswerEvent event);
  void end(FinishReason reason);
  void end(Status status) noexcept;
  void end_cancelled();
  void break_off() noexcept;
  void take_time(double& sum_ms);
  Status cut_back();

  const Tokenizer& tokenizer_;
  const LanguageModel& model_;
  Clock& clock_;
  KvCacheEntry& entry_;
  GenerateRequest request_;
  Sampler sampler_;
  const StopDetector stops_;
  const size_t n_before_answer_;              // ids in the sampler's history
  const size_t n_drafter_;                    // and in the drafter, in front of the answer; with what it had learnt
  const DraftPolicy policy_before_;

  // The compute thread's until it is over.
  Stage stage_ = Stage::kNew;
  std::unique_ptr<PendingPrefixes::Reading> reading_;
  std::optional<KvCacheEntry> replaced_;
  NextTokens next_tokens_;
  ReplyText reply_;
  RepetitionDetector repetition_;             // kept up only where it may end the answer
  Tokens sampled_;
  LogprobsTold logprobs_;                     // of each of them but one that ends the turn, where they are wanted
  Tokens draft_;                              // fed behind the last id; row i + 1 of the logits is behind draft_[i]
  Tokens fed_;                                // the next pass: the last id, and its draft
  AnswerProgress now_;
  size_t n_cached_ = 0;
  size_t n_steps_before_ = 0;                 // of the history
  int64_t mark_ns_ = 0;                       // up to where the time has been counted
  Generation out_;
  Status status_;
  bool broke_off_ = false;

  std::mutex mutex_;                          // guards what follows
  std::vector<AnswerEvent> queued_;

  // The owner's.
  std::vector<AnswerEvent> taken_;
  AnswerProgress heard_;
  bool hears_ = false;
};

}  // namespace ibid
