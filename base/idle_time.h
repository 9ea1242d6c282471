// IdleTime: waits until a core is idle, for background work that must not slow down other work. The work itself does
// not run on a thread of the idle class: such a thread may get no core for as long as other threads want one, and any
// lock it holds would stay held.
//
// An interface, so that tests can simulate a machine that is never idle.
#pragma once

#include <memory>

namespace ibid {

class IdleTime {
 public:
  virtual ~IdleTime() = default;
  // Returns when a core was idle, or if interrupt() was called since the last wait() returned.
  // REQUIRES: one thread at a time.
  virtual void wait() = 0;
  // May be called by any thread.
  virtual void interrupt() noexcept = 0;
};

// The system's implementation, with a thread of the class SCHED_IDLE that holds no lock and is not joined by the
// destructor. Throws std::system_error if the thread cannot be created. On systems without that class wait() returns at
// once.
std::unique_ptr<IdleTime> make_idle_time();

}  // namespace ibid
