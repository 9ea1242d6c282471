// IdleTime: waits for a moment in which a processor has nothing better to do. It serves work that may wait but must
// not be in anybody's way. A thread of the idle class does not do that work itself: such a thread may be left
// without a processor for as long as others want one, and so may whatever lock it holds.
//
// It is an interface, so that tests can play a machine that is never idle.
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

// The system's: it asks a thread of the class SCHED_IDLE, which holds no lock and is not waited for when this is
// destroyed. Throws std::system_error when no thread can be made. On systems without that class every moment counts
// as idle.
std::unique_ptr<IdleTime> make_idle_time();

}  // namespace ibid
