// Clock: the source of time, replaceable so that tests of timings, deadlines and expiry need not wait. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>

namespace ibid {

class Clock {
 public:
  virtual ~Clock() = default;
  // Monotonic, from an arbitrary start. For durations and deadlines.
  virtual int64_t steady_ns() = 0;
  // Since 1970-01-01 00:00 UTC; may jump. For dates in prompts and files.
  virtual int64_t unix_ns() = 0;
};

class SystemClock : public Clock {
 public:
  int64_t steady_ns() override { return since_epoch_ns(std::chrono::steady_clock::now()); }
  int64_t unix_ns() override { return since_epoch_ns(std::chrono::system_clock::now()); }

 private:
  template <typename TimePoint>
  static int64_t since_epoch_ns(TimePoint now) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now.time_since_epoch()).count();
  }
};

inline Clock& system_clock() {
  static SystemClock clock;
  return clock;
}

}  // namespace ibid
