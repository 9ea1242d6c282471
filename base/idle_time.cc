#include "base/idle_time.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <semaphore>
#include <thread>
#include <utility>

namespace ibid {

namespace {

// State shared with the SCHED_IDLE thread. There is no mutex, because that thread may lose its core for a long time
// while it holds a mutex.
struct ProbeState {
  std::counting_semaphore<> asked{0}, answered{0};
  std::atomic<bool> over{false};
};

void answer_probes(const std::shared_ptr<ProbeState>& probe) {
#ifdef SCHED_IDLE
  const sched_param none{};
  static_cast<void>(::pthread_setschedparam(::pthread_self(), SCHED_IDLE, &none));
#endif
  for (;;) {
    probe->asked.acquire();
    if (probe->over) return;
    probe->answered.release();
  }
}

class ThreadIdleTime : public IdleTime {
 public:
  ThreadIdleTime() : probe_(std::make_shared<ProbeState>()) {
    // Detached: on a busy machine the thread may wait seconds for a core before it can exit.
    std::thread([probe = probe_] { answer_probes(probe); }).detach();
  }
  ~ThreadIdleTime() override {
    probe_->over = true;
    probe_->asked.release();
  }

  bool wait_for(std::chrono::nanoseconds limit) override {
    // After a wait that ended at its limit, the question is still open.
    if (!std::exchange(has_asked_, true)) probe_->asked.release();
    if (limit == kNoLimit) {
      probe_->answered.acquire();
    } else if (!probe_->answered.try_acquire_for(limit)) {
      return false;
    }
    has_asked_ = false;
    // Drop late answers to earlier wait() calls, which interrupt() ended.
    while (probe_->answered.try_acquire()) {
    }
    return true;
  }
  void interrupt() noexcept override { probe_->answered.release(); }

 private:
  const std::shared_ptr<ProbeState> probe_;
  bool has_asked_ = false;  // for the thread that waits
};

}  // namespace

std::unique_ptr<IdleTime> make_idle_time() { return std::make_unique<ThreadIdleTime>(); }

}  // namespace ibid
