// Scheduler: many sessions on one model, by continuous batching. A pass of the model takes the next rows of every
// session that waits: all that decode, and of the prompts that are being read as many rows as a latency target
// allows (runtime/pass_plan.h has the rules). By the first law a row's bits do not depend on its company, so who
// shared a pass with whom cannot be seen in any answer.
//
// There is no thread of its own. Of the callers that wait one drives: it gathers the rows, runs the pass, hands out
// the results, and goes on until its own rows are done; then another takes over. A session that is alone runs its
// own passes and pays for a lock.
//
// Whoever took part in the last pass is expected to be back soon, with the id that it sampled: a pass waits for it a
// little, if it usually is back by then, so that sessions that decode side by side stay in step.
//
// Thread-safe. The model must outlive it, and it the streams.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <span>
#include <stop_token>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/language_model.h"
#include "runtime/pass_plan.h"

namespace ibid {

struct SchedulerOptions {
  // How long a pass may take when a session that decodes, or may come to, is kept waiting by prefill.
  double latency_target_ms = 40;
};

struct SchedulerStats {
  size_t n_passes = 0;
  size_t n_shared_passes = 0;  // with rows of more than one session
  size_t n_rows = 0;
  size_t most_sequences = 0;   // in one pass
};

class Scheduler {
 public:
  Scheduler(LanguageModel& model, Clock& clock, const SchedulerOptions& options = {});
  ~Scheduler();  // REQUIRES: no stream is left
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // One session's part in the passes, from the first row of a prompt to the end of the answer. Used by one thread at
  // a time.
  class Stream {
   public:
    explicit Stream(Scheduler& scheduler, Priority priority = Priority::kNormal);
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    // Feeds `tokens`, which stand behind entry.length(), or a first part of them, in one pass, and returns how many.
    // Up to kDecodeRows tokens (the model's max_chunk, if that is less) are fed all at once. `logits`: as `want` says,
    // once the last token was fed; untouched before. Waits for its turn; waiting ends when `stop` fires. A pass
    // with rows of others ends all the same, so cancelling takes as long as a layer alone and as a pass in company.
    // Errors: kCancelled, kOutOfMemory (of the heap too), and those of LanguageModel::forward() for these tokens; the
    // entry is then unchanged, and others go on.
    Result<size_t> forward(KvCacheEntry& entry, TokenSpan tokens, WantLogits want, std::stop_token stop,
                           Logits& logits);

    const LanguageModel& model() const { return scheduler_.model_; }

   private:
    friend class Scheduler;
    Scheduler& scheduler_;
    const Priority priority_;
    uint64_t age_ = 0;
    // Guarded by the scheduler's mutex.
    bool expected_ = false;  // took part in a pass and has not come back since
    int64_t left_ns_ = 0;    // when it was last given its result
    double away_ns_ = 0;     // how long it usually stays away; 0: not known
  };

  const LanguageModel& model() const { return model_; }
  SchedulerStats stats() const;

 private:
  struct Request;

  void arrive(Request& request);
  Result<size_t> wait_for_result(Request& request);
  void drive(std::unique_lock<std::mutex>& lock, Request& own);
  void wait_for_expected(std::unique_lock<std::mutex>& lock, const Request& own);
  int64_t expected_until(int64_t now_ns) const;
  std::vector<Request*> take_members(int64_t now_ns);
  size_t prefill_rows_allowed(size_t n_decode_rows) const;
  void run_pass(std::span<Request* const> members) noexcept;
  void run_shared(std::span<Request* const> members) noexcept;
  void run_alone(Request& request) noexcept;
  void hand_out(std::span<Request* const> members) noexcept;

  LanguageModel& model_;
  Clock& clock_;
  const int64_t target_ns_;

  mutable std::mutex mutex_;  // guards what follows, and the requests that wait
  std::condition_variable_any moved_;
  std::list<Stream*> streams_;
  std::list<Request*> waiting_;
  bool driving_ = false;
  uint64_t last_age_ = 0;
  PassCost cost_;
  SchedulerStats stats_;

  Logits shared_logits_;  // of the pass under way; the driver's
};

}  // namespace ibid
