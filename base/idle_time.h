// IdleTime: waits for a moment in which a processor has nothing better to do, for work that may wait but must not be in
// anybody's way. The work itself is not done by a thread of the idle class: such a thread may be left without a
// processor for as long as others want it, and with it whatever lock it holds.
//
// An interface, so that tests can be a machine that is never idle.
#pragma once

#include <memory>

namespace ibid {

class IdleTime {
 public:
  virtual ~IdleTime() = default;
  // Returns when a processor was idle, or when interrupt() was called since the last wait() returned.
  // REQUIRES: one thread at a time.
  virtual void wait() = 0;
  // Any thread.
  virtual void interrupt() noexcept = 0;
};

// Asks a thread of the class SCHED_IDLE, which holds no lock and is not waited for when this is destroyed. Throws
// std::system_error when there is no thread to be had. Where there is no such class every moment is idle.
std::unique_ptr<IdleTime> make_idle_time();

}  // namespace ibid
