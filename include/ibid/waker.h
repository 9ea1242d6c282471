// Waker: wakes a thread when one of its streams has new events. Several streams may share one Waker, which they
// ring, so that one thread waits for all of them. A ring means only that there may be new events.
//
// Waking a thread takes a core from the pass that computes the next token: on two cores, one wake-up per token of a
// small model cost 8 % of its rate. So wake_softly() does not wake a thread within kRest of its last wake-up. ring() is
// for rarer events, and wakes it at once.
//
// Any thread may call ring() and wake_softly(); they make no system call unless a thread waits. Only one thread may
// wait().
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace ibid {

class Waker {
 public:
  // Minimum time between wake-ups by wake_softly(): about one frame of a display; faster updates would not be visible.
  static constexpr std::chrono::milliseconds kRest{16};

  Waker() = default;
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;

  void ring() noexcept { ring(n_rings_, State::kResting); }
  // Wakes the waiting thread, at the earliest kRest after its last wake-up.
  void wake_softly() noexcept { ring(n_soft_rings_, State::kAsleep); }

  // Waits until ring() or wake_softly() was called since the last wait() returned. Poll the streams before and after
  // the call.
  void wait() noexcept { wait_until(Time::max()); }
  // As wait(), for at most `limit`.
  void wait_for(std::chrono::milliseconds limit) noexcept { wait_until(std::chrono::steady_clock::now() + limit); }

 private:
  enum class State { kAwake, kResting, kAsleep };
  using Time = std::chrono::steady_clock::time_point;

  void wait_until(Time end) noexcept {
    std::unique_lock lock(mutex_);
    const auto has_rung = [this] { return n_rings_.load() != n_rings_seen_; };
    const auto has_rung_softly = [this] { return n_soft_rings_.load() != n_soft_rings_seen_; };
    state_.store(State::kResting);
    sleeper_.wait_until(lock, std::min(rested_, end), has_rung);
    state_.store(State::kAsleep);
    if (end == Time::max()) {
      sleeper_.wait(lock, [&] { return has_rung() || has_rung_softly(); });
    } else {
      sleeper_.wait_until(lock, end, [&] { return has_rung() || has_rung_softly(); });
    }
    state_.store(State::kAwake);
    n_rings_seen_ = n_rings_.load();
    n_soft_rings_seen_ = n_soft_rings_.load();
    rested_ = std::chrono::steady_clock::now() + kRest;
  }

  // Wakes the waiting thread if state_ is `wakes` or a later State. Both sides are sequentially consistent: either this
  // call sees that the thread sleeps, or the thread sees the incremented counter and does not sleep.
  void ring(std::atomic<uint32_t>& counter, State wakes) noexcept {
    counter.fetch_add(1);
    if (state_.load() < wakes) return;
    // Waits while the thread is between its check of the counters and its sleep.
    { const std::lock_guard lock(mutex_); }
    sleeper_.notify_one();
  }

  std::atomic<uint32_t> n_rings_{0};
  std::atomic<uint32_t> n_soft_rings_{0};
  std::atomic<State> state_{State::kAwake};
  std::mutex mutex_;
  std::condition_variable sleeper_;

  // Read and written only by the waiting thread.
  uint32_t n_rings_seen_ = 0;
  uint32_t n_soft_rings_seen_ = 0;
  Time rested_{};
};

}  // namespace ibid
