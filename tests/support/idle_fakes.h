// Machines for whoever waits for an idle moment: one that never is idle, and one that always is.
#pragma once

#include <semaphore>

#include "base/idle_time.h"

namespace ibid {

// Others want every processor for ever.
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
