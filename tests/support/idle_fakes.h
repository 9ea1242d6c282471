// Fakes of IdleTime: a machine that is never idle, and one that always is.
#pragma once

#include <semaphore>

#include "base/idle_time.h"

namespace ibid {

// A machine on which other programs keep every processor busy: wait() returns only on interrupt().
class NeverIdle : public IdleTime {
 public:
  void wait() override { interrupted_.acquire(); }
  void interrupt() noexcept override { interrupted_.release(); }

 private:
  std::counting_semaphore<> interrupted_{0};
};

class AlwaysIdle : public IdleTime {
 public:
  void wait() override {}
  void interrupt() noexcept override {}
};

}  // namespace ibid
