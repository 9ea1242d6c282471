// Task: one sequence that is fed to the model pass by pass. It is a state machine without a thread. Its owner submits
// it to the Scheduler. The compute thread asks it before each pass what to feed, and tells it afterwards what came of
// that, until it is over. An answer is a task (runtime/generate/answer.h), and so is a prompt that is only read
// (runtime/generate/feeding.h).
//
// Whoever submits a task owns it, and keeps it and what it works on until is_over(). From then on the compute
// thread does not touch it again.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <utility>

#include "base/result.h"
#include "ibid/bell.h"
#include "model/forward/language_model.h"
#include "runtime/scheduler/pass_plan.h"

namespace ibid {

// The logits of one task's rows in a pass. Valid during fed().
struct LogitsRows {
  const Logits& logits;
  size_t first = 0;
  std::span<const float> row(size_t i) const { return logits.row(first + i); }
};

class Task {
 public:
  // The bell rings when the task is over. A task may ring it in between.
  Task(Priority priority, std::stop_token stop, std::shared_ptr<Bell> bell)
      : priority_(priority), stop_(std::move(stop)), bell_(std::move(bell)) {}
  virtual ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  bool is_over() const { return over_.load(std::memory_order_acquire); }
  // Ends the task as the stop token does, but is seen between passes only. For any thread.
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }

 protected:
  enum class Wish {
    kFeed,  // what `chunk` says
    kWait,  // for another task, of those that were submitted before
    kOver,
  };

  bool is_cancelled() const { return cancelled_.load(std::memory_order_relaxed) || stop_.stop_requested(); }
  Bell& bell() const { return *bell_; }

  // True if nobody waits for the task: at low priority it ends when another task finds no memory.
  virtual bool gives_way() const noexcept { return false; }

 private:
  friend class Scheduler;

  // Says what the task wants of the next pass. It is asked before each pass, also when nothing was fed since it was
  // asked last. The tokens follow entry->length(), and must stay valid until fed(). Up to kDecodeRows of them (the
  // model's max_chunk, if that is less) are fed all at once; of more, perhaps only a first part.
  virtual Wish next(SequenceChunk& chunk) noexcept = 0;
  // Tells that the first n_rows of these tokens were fed; with the last of them come the logits that were wanted.
  // Hidden states are where the chunk said: those of the last row once it was fed, or those of these n_rows.
  // If none were fed, `status` says why (errors of LanguageModel::forward(), and kOutOfMemory of the heap), and the
  // entry is as before. Several tasks may be told at once, on threads of the engine's team.
  virtual void fed(size_t n_rows, Status status, const LogitsRows& rows) noexcept = 0;

  const Priority priority_;
  const std::stop_token stop_;
  std::shared_ptr<Bell> bell_;
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> over_{false};

  // The compute thread's.
  uint64_t age_ = 0;
  int64_t since_ns_ = 0;   // waits for rows
  SequenceChunk chunk_;    // of the next pass
  size_t n_rows_ = 0;      // of it, in the pass under way; 0: not in it
};

}  // namespace ibid
