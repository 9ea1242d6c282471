// Scheduler: runs many sequences on one model, by continuous batching. A pass of the model takes the next rows of every
// task that has some: all rows of decoding tasks, and as many prompt rows as the latency target allows
// (runtime/scheduler/pass_plan.h). The bits of a row do not depend on the other rows of its pass (docs/numerics.md), so
// sharing passes never changes an answer.
//
// Only its one thread, the compute thread, calls the model. It plans a pass, runs it, passes each task the results of
// its rows (an answer then samples its next token), and continues without waiting for other threads. It sleeps if there
// is nothing to compute. docs/decisions/0009 has the reasons.
//
// Thread-safe. The model must outlive it. A child of fork() has no compute thread: there submit() is kUnsupported.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "ibid/engine_options.h"
#include "ibid/waker.h"
#include "model/forward/language_model.h"
#include "runtime/scheduler/pass_plan.h"
#include "runtime/scheduler/task.h"

namespace ibid {

class Scheduler {
 public:
  // Starts the compute thread. Error: kOutOfMemory if it cannot be started.
  static Result<std::unique_ptr<Scheduler>> create(LanguageModel& model, Clock& clock,
                                                   const SchedulerOptions& options = {});
  // Ends the compute thread. REQUIRES: every task is over; not called on the compute thread.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Passes the task to the compute thread until it is over. Errors: those of check_process(); kOutOfMemory. After an
  // error the task was not submitted.
  Status submit(Task& task);

  // kUnsupported in a child of fork(): the compute thread belongs to the parent.
  Status check_process() const;

  LanguageModel& model() const { return model_; }
  SchedulerStats stats() const;
  // Measured time of a prefill row in recent passes; 0: nothing was measured yet.
  double prefill_row_ns() const { return prefill_row_ns_; }

 private:
  Scheduler(LanguageModel& model, Clock& clock, const SchedulerOptions& options);

  void compute() noexcept;
  bool take_arrivals();
  void run_next_pass() noexcept;
  size_t ask_tasks() noexcept;
  static void retire(Task& task) noexcept;
  void choose_members(int64_t now_ns) noexcept;
  void plan_members(int64_t now_ns);
  size_t prefill_rows_allowed(bool alone, size_t n_decode_rows) const;
  void run_pass() noexcept;
  void run_alone(Task& task) noexcept;
  bool drop_spare_states() noexcept;
  bool end_idle_readings(const Task& task) noexcept;
  bool run_shared() noexcept;
  Status forward(std::span<const SequenceChunk> batch, std::stop_token stop) noexcept;
  void read_rows(std::span<Task* const> members) noexcept;
  void record_pass(std::span<Task* const> members, bool was_whole) noexcept;

  LanguageModel& model_;
  Clock& clock_;
  const int64_t target_ns_;
  const pid_t process_;

  Waker work_;                // wakes the compute thread
  mutable std::mutex mutex_;  // guards the members up to stats_
  std::list<Task*> arrived_;
  bool ending_ = false;
  uint64_t last_age_ = 0;
  SchedulerStats stats_;

  // Members for the compute thread only.
  std::list<Task*> tasks_;            // all tasks in order of arrival
  std::vector<Task*> members_;        // tasks of the running pass
  Task* only_member_ = nullptr;       // the only task of the pass, if there was no memory for a plan
  std::vector<SequenceChunk> batch_;  // chunks of a shared pass
  std::vector<size_t> first_rows_;    // first row of each member's logits
  Logits logits_;
  int64_t start_ns_ = 0;
  PassCost cost_;
  std::atomic<double> prefill_row_ns_{0};  // cost_.row_ns(), for all threads
  ScoreShare score_share_;

  std::unique_ptr<std::thread> thread_;
};

}  // namespace ibid
