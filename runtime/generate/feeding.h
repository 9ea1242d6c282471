// Feeding: a task that prefills tokens into an entry without an answer: a prompt ahead of its turn, or a measurement.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <utility>

#include "base/result.h"
#include "cache/pages/kv_cache_entry.h"
#include "ibid/token.h"
#include "runtime/generate/checkpoint_positions.h"
#include "runtime/scheduler/scheduler.h"
#include "runtime/scheduler/task.h"

namespace ibid {

class Feeding final : public Task {
 public:
  // Called with the entry at the end, also after an error, on the compute thread. Must not throw.
  using Publish = std::function<void(KvCacheEntry&)>;

  // Tokens to append after entry.length(). They must outlive the task.
  struct Part {
    TokenSpan ids;
    WantLogits want = WantLogits::kNone;   // which rows of the last pass get logits
    CheckpointPositions checkpoints = {};  // positions at which states are checkpointed
  };
  // The entry must outlive the task.
  Feeding(KvCacheEntry& entry, Part part, Priority priority, std::stop_token stop, std::shared_ptr<Waker> waker,
          Publish publish = {});

  // Returns the result of the task. Call after is_over() only. Errors: kCancelled, kOutOfMemory, and those of
  // LanguageModel::forward(); after an error the entry has the tokens that were computed before it.
  Status take_status() { return std::move(status_); }
  Logits take_logits() { return std::move(logits_); }

 private:
  Action next(SequenceChunk& chunk) noexcept override;
  void computed(size_t n_rows, Status status, const LogitsRows& rows) noexcept override;
  bool is_preemptible() const noexcept override { return true; }

  KvCacheEntry& entry_;
  TokenSpan unfed_tokens_;
  const WantLogits want_;
  const CheckpointPositions checkpoints_;
  const Publish publish_;
  Status status_;
  Logits logits_;
};

// Prefills `ids` and waits. `logits`: the logits that `want` requests, if all tokens were computed. Errors: as
// Scheduler::submit() and Feeding.
Status feed(Scheduler& scheduler, KvCacheEntry& entry, TokenSpan ids, WantLogits want, std::stop_token stop,
            Logits& logits, Priority priority = Priority::kNormal);

}  // namespace ibid
