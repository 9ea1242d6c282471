// Stopwatch: adds the time of a scope to a sum.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace ibid {

inline double milliseconds_since(Clock& clock, int64_t start_ns) {
  return static_cast<double>(clock.steady_ns() - start_ns) * 1e-6;
}

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
