// Scheduler: runs many sequences on one model, by continuous batching. A pass of the model takes the next rows of
// every task that has some: all rows of tasks that decode, and as many rows of prompts as a latency target allows
// (runtime/scheduler/pass_plan.h has the rules). A row's bits do not depend on its company (docs/numerics.md), so no
// answer shows who shared a pass with whom.
//
// It has one thread, the compute thread, and no other thread calls the model. The compute thread plans a pass, runs
// it, tells each task in it what came of its rows (an answer then chooses its next token), and goes on without
// waiting for anybody. It sleeps while there is nothing to do. docs/decisions/0009 says why.
//
// Thread-safe. The model must outlive it. A child of fork() has no compute thread: there submit() is kUnsupported.
#pragma once

#include <sys/types.h>

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
#include "ibid/bell.h"
#include "ibid/engine_options.h"
#include "model/forward/language_model.h"
#include "runtime/scheduler/pass_plan.h"
#include "runtime/scheduler/task.h"

namespace ibid {

class Scheduler {
 public:
  // Starts the compute thread. Error: kOutOfMemory when it cannot be had.
  static Result<std::unique_ptr<Scheduler>> create(LanguageModel& model, Clock& clock,
                                                   const SchedulerOptions& options = {});
  // Ends the compute thread. REQUIRES: every task is over; not called on the compute thread.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Hands the task to the compute thread, until it is over. Errors: those of check_process(); kOutOfMemory. After
  // an error the task was not taken.
  Status submit(Task& task);

  // kUnsupported in a child of fork(): the thread that computes is the parent's.
  Status check_process() const;

  LanguageModel& model() const { return model_; }
  SchedulerStats stats() const;

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
  void record_pass(std::span<Task* const> members, bool was_whole) noexcept;

  LanguageModel& model_;
  Clock& clock_;
  const int64_t target_ns_;
  const pid_t process_;

  Bell work_;  // for the compute thread
  mutable std::mutex mutex_;  // guards what follows
  std::list<Task*> arrived_;
  bool ending_ = false;
  uint64_t last_age_ = 0;
  SchedulerStats stats_;

  // The compute thread's own.
  std::list<Task*> tasks_;            // in the order in which they came
  std::vector<Task*> members_;        // of the pass under way,
  Task* only_member_ = nullptr;       // or this one, where there was no memory for a plan
  std::vector<SequenceChunk> batch_;  // of a shared pass,
  std::vector<size_t> first_rows_;    // and where each member's logits begin
  Logits logits_;
  int64_t start_ns_ = 0;
  PassCost cost_;

  std::unique_ptr<std::thread> thread_;
};

}  // namespace ibid
