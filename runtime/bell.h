// Bell: what a caller's thread sleeps on until there is something to hear from the answers that it waits for. One bell
// may stand for many answers, so that one thread can wait for whichever of them moves first.
//
// ring() is for any thread and costs no system call while nobody sleeps; wait() is for one thread at a time.
#pragma once

#include <atomic>
#include <cstdint>

namespace ibid {

class Bell {
 public:
  Bell() = default;
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  void ring() noexcept {
    // Sequentially consistent on both sides: either this sees the sleeper, or the sleeper sees the ring.
    n_rings_.fetch_add(1);
    if (asleep_.load()) n_rings_.notify_one();
  }

  // Until it has rung since the last wait() returned. Look for news before and after: a ring says that there may be
  // some.
  void wait() noexcept {
    asleep_.store(true);
    while (n_rings_.load() == n_heard_) n_rings_.wait(n_heard_);
    asleep_.store(false);
    n_heard_ = n_rings_.load();
  }

 private:
  std::atomic<uint32_t> n_rings_{0};
  std::atomic<bool> asleep_{false};
  uint32_t n_heard_ = 0;  // the waiting thread's
};

}  // namespace ibid
