// IdleTime: waits until a core is idle, for background work that must not slow down other work. The background work
// itself must not run in the scheduling class SCHED_IDLE: while other threads use all cores, such a thread does not
// run, and the locks that it holds stay locked.
//
// An interface, so that tests can simulate a machine that is never idle.
#pragma once

#include <chrono>
#include <memory>

namespace ibid {

class IdleTime {
 public:
  static constexpr std::chrono::nanoseconds kNoLimit = std::chrono::nanoseconds::max();

  virtual ~IdleTime() = default;
  // Returns true when a core was idle, or if interrupt() was called since the last wait returned; false after `limit`.
  // REQUIRES: only one thread waits at a time.
  virtual bool wait_for(std::chrono::nanoseconds limit) = 0;
  void wait() { (void)wait_for(kNoLimit); }
  // May be called by any thread.
  virtual void interrupt() noexcept = 0;
};

// The system's implementation. A thread of the class SCHED_IDLE, which holds no lock, detects the idle core; the
// destructor does not join that thread. Throws std::system_error if the thread cannot be created. On systems without
// that class wait() returns at once.
std::unique_ptr<IdleTime> make_idle_time();

}  // namespace ibid
