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
struct Questions {
  std::counting_semaphore<> asked{0}, answered{0};
  std::atomic<bool> over{false};
};

void answer(const std::shared_ptr<Questions>& questions) {
#ifdef SCHED_IDLE
  const sched_param none{};
  static_cast<void>(::pthread_setschedparam(::pthread_self(), SCHED_IDLE, &none));
#endif
  for (;;) {
    questions->asked.acquire();
    if (questions->over) return;
    questions->answered.release();
  }
}

class ThreadIdleTime : public IdleTime {
 public:
  ThreadIdleTime() : questions_(std::make_shared<Questions>()) {
    // Detached: on a busy machine the thread may wait seconds for a core before it can exit.
    std::thread([questions = questions_] { answer(questions); }).detach();
  }
  ~ThreadIdleTime() override {
    questions_->over = true;
    questions_->asked.release();
  }

  void wait() override {
    questions_->asked.release();
    questions_->answered.acquire();
    // Drop late answers to earlier wait() calls, which interrupt() ended.
    while (questions_->answered.try_acquire()) {
    }
  }
  void interrupt() noexcept override { questions_->answered.release(); }

 private:
  const std::shared_ptr<Questions> questions_;
};

}  // namespace

std::unique_ptr<IdleTime> make_idle_time() { return std::make_unique<ThreadIdleTime>(); }

}  // namespace ibid
