// TimeLimits: when a call that waits must end: at a deadline, or when a stop is requested.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <stop_token>

#include "base/clock.h"

namespace ibid {

struct TimeLimits {
  static constexpr int64_t kNoDeadline = std::numeric_limits<int64_t>::max();

  std::stop_token stop = {};
  int64_t deadline_ns = kNoDeadline;  // steady_ns() of the clock of the called object

  bool reached(Clock& clock) const {
    return stop.stop_requested() || (deadline_ns != kNoDeadline && clock.steady_ns() >= deadline_ns);
  }
  // Time to the deadline.
  std::chrono::nanoseconds left(Clock& clock) const {
    return std::chrono::nanoseconds(deadline_ns == kNoDeadline ? deadline_ns : deadline_ns - clock.steady_ns());
  }
  // These limits, and a deadline at most `ns` from now.
  TimeLimits within(int64_t ns, Clock& clock) const { return {stop, std::min(deadline_ns, clock.steady_ns() + ns)}; }
};

}  // namespace ibid
