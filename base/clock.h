// Clock: the source of time, replaceable so that tests of timings, deadlines and expiry need not wait. Thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
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

inline double milliseconds_since(Clock& clock, int64_t start_ns) {
  return static_cast<double>(clock.steady_ns() - start_ns) * 1e-6;
}

// Returns the rate of n items in `ms` milliseconds; 0 if no time was measured.
inline double per_second(size_t n, double ms) { return ms > 0 ? static_cast<double>(n) * 1000.0 / ms : 0; }

// Adds the time of a scope to a sum.
class Stopwatch {
 public:
  Stopwatch(Clock& clock, double& sum_ms) : clock_(clock), sum_ms_(sum_ms), start_ns_(clock.steady_ns()) {}
  ~Stopwatch() { sum_ms_ += milliseconds_since(clock_, start_ns_); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  Clock& clock_;
  double& sum_ms_;
  int64_t start_ns_;
};

}  // namespace ibid
