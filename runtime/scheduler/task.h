// Task: one sequence that is fed to the model pass by pass; a state machine without a thread. Its owner submits it to
// the Scheduler. Before each pass the compute thread calls next() for the tokens to feed, and afterwards computed()
// with the results, until the task is over. An answer is a task (runtime/generate/answer.h), and so is a prefill
// without an answer (runtime/generate/feeding.h).
//
// The submitter owns a task, and keeps it and its data until is_over(). After that the compute thread does not touch
// it.
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
#include "ibid/waker.h"
#include "model/forward/language_model.h"
#include "runtime/scheduler/pass_plan.h"

namespace ibid {

// The logits of one task's rows in a pass. Valid during computed().
struct LogitsRows {
  const Logits& logits;
  size_t first = 0;
  std::span<const float> row(size_t i) const { return logits.row(first + i); }
};

class Task {
 public:
  // The waker is rung when the task is over. The task may also ring it before.
  Task(Priority priority, std::stop_token stop, std::shared_ptr<Waker> waker)
      : priority_(priority), stop_(std::move(stop)), waker_(std::move(waker)) {}
  virtual ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  bool is_over() const { return over_.load(std::memory_order_acquire); }
  // Ends the task as the stop token does, but only between passes. Any thread may call it.
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }

 protected:
  enum class Action {
    kFeed,  // feed the tokens in `chunk`
    kWait,  // wait for another task, which was submitted before this one
    kOver,
  };

  bool is_cancelled() const { return cancelled_.load(std::memory_order_relaxed) || stop_.stop_requested(); }
  Waker& waker() const { return *waker_; }

  // True for tasks that give way: their result is needed only as a whole, so that beside decoding tasks they get few
  // rows (ScoreShare).
  virtual bool gives_way() const noexcept { return false; }

  // True for tasks whose result is only useful later: at low priority they end if another task finds no memory.
  virtual bool is_preemptible() const noexcept { return false; }

 private:
  friend class Scheduler;

  // Returns the next action. Called before each pass, even if nothing was fed since the last call. The tokens follow
  // entry->length(), and must stay valid until computed(). Up to kDecodeRows tokens (or the model's max_chunk, if less)
  // are fed all at once. Of more tokens, and of the tokens of tasks that give way, possibly only a first part is fed.
  virtual Action next(SequenceChunk& chunk) noexcept = 0;
  // Reports that the first n_rows of the tokens were fed. With kLast, the logits or hidden states come once the last
  // token was fed. With kAll, each fed part has the logits or hidden states of its own rows. n_rows 0: `status` is the
  // error (of LanguageModel::forward(), or kOutOfMemory of the heap), and the entry is unchanged. Called for several
  // tasks at the same time, on threads of the engine's team.
  virtual void computed(size_t n_rows, Status status, const LogitsRows& rows) noexcept = 0;
  // For tasks with gives_way(): reduces the logits of the row at a position of the sequence to what the task needs.
  // Called before computed() for all rows of a part, several at the same time.
  virtual void read_row(size_t position, std::span<const float> logits) noexcept { (void)position, (void)logits; }

  const Priority priority_;
  const std::stop_token stop_;
  std::shared_ptr<Waker> waker_;
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> over_{false};

  // Members for the compute thread only.
  uint64_t age_ = 0;
  int64_t since_ns_ = 0;  // time since which the task waits for rows
  SequenceChunk chunk_;   // chunk of the next pass
  size_t n_rows_ = 0;     // rows of the chunk in the running pass; 0: the task is not in the pass
};

}  // namespace ibid
