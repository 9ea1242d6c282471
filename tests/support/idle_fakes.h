// Fakes of IdleTime: a machine that is never idle, and one that always is.
#pragma once

#include <semaphore>

#include "base/idle_time.h"

namespace ibid {

// A machine on which other programs keep every processor busy: a wait ends only at its limit or on interrupt().
class NeverIdle : public IdleTime {
 public:
  bool wait_for(std::chrono::nanoseconds limit) override {
    if (limit != kNoLimit) return interrupted_.try_acquire_for(limit);
    interrupted_.acquire();
    return true;
  }
  void interrupt() noexcept override { interrupted_.release(); }

 private:
  std::counting_semaphore<> interrupted_{0};
};

class AlwaysIdle : public IdleTime {
 public:
  bool wait_for(std::chrono::nanoseconds) override { return true; }
  void interrupt() noexcept override {}
};

}  // namespace ibid
