// Bell: what a thread waits for until one of its streams has new events. One bell may serve many answers, so that one
// thread can wait for whichever of them moves first. A ring says only that there may be new events.
//
// Waking a thread takes a core from the pass that computes the next token. On two cores a wake-up for each token of a
// small model cost 8 % of its rate. So a thread that has just been woken rests for kRest before more of the same
// (ring_softly()) wakes it again; an event of another kind (ring()) does not wait.
//
// Any thread may call ring() and ring_softly(), which cost no system call while no thread waits. wait() is for one
// thread at a time.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace ibid {

class Bell {
 public:
  // A frame of a screen: nobody reads faster.
  static constexpr std::chrono::milliseconds kRest{16};

  Bell() = default;
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  void ring() noexcept { ring(n_rings_, State::kResting); }
  // Wakes the thread that waits once it has rested.
  void ring_softly() noexcept { ring(n_soft_rings_, State::kAsleep); }

  // Waits until the bell has rung since the last wait() returned. Poll the streams before and after.
  void wait() noexcept { wait_until(Time::max()); }
  // The same, for at most so long.
  void wait_for(std::chrono::milliseconds limit) noexcept { wait_until(std::chrono::steady_clock::now() + limit); }

 private:
  enum class State { kAwake, kResting, kAsleep };
  using Time = std::chrono::steady_clock::time_point;

  void wait_until(Time end) noexcept {
    std::unique_lock lock(mutex_);
    const auto has_rung = [this] { return n_rings_.load() != n_heard_; };
    const auto has_rung_softly = [this] { return n_soft_rings_.load() != n_heard_softly_; };
    state_.store(State::kResting);
    sleeper_.wait_until(lock, std::min(rested_, end), has_rung);
    state_.store(State::kAsleep);
    if (end == Time::max()) {
      sleeper_.wait(lock, [&] { return has_rung() || has_rung_softly(); });
    } else {
      sleeper_.wait_until(lock, end, [&] { return has_rung() || has_rung_softly(); });
    }
    state_.store(State::kAwake);
    n_heard_ = n_rings_.load();
    n_heard_softly_ = n_soft_rings_.load();
    rested_ = std::chrono::steady_clock::now() + kRest;
  }

  // Wakes who is in `wakes` or sleeps deeper. Sequentially consistent on both sides: either this sees the sleeper, or
  // the sleeper sees the ring.
  void ring(std::atomic<uint32_t>& counter, State wakes) noexcept {
    counter.fetch_add(1);
    if (state_.load() < wakes) return;
    { const std::lock_guard lock(mutex_); }  // not between the sleeper's look and its sleep
    sleeper_.notify_one();
  }

  std::atomic<uint32_t> n_rings_{0};
  std::atomic<uint32_t> n_soft_rings_{0};
  std::atomic<State> state_{State::kAwake};
  std::mutex mutex_;
  std::condition_variable sleeper_;

  // The waiting thread's.
  uint32_t n_heard_ = 0;
  uint32_t n_heard_softly_ = 0;
  Time rested_{};
};

}  // namespace ibid
