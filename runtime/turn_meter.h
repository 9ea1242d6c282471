// TurnMeter: measures what a step of a turn costs, on a clock. Whoever does a step has a meter of its own and hands
// the cost back with the result of the step; the turn adds the costs up. Not thread-safe.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "runtime/stopwatch.h"
#include "runtime/turn_cost.h"

namespace ibid {

class TurnMeter {
 public:
  explicit TurnMeter(Clock& clock) : clock_(clock), start_ns_(clock.steady_ns()) {}

  // Adds the time that the result lives to a stage.
  [[nodiscard]] Stopwatch time(double Timings::*stage) { return {clock_, cost_.timings.*stage}; }

  void add(const TurnCost& cost) { cost_ += cost; }
  WorkCounters& work() { return cost_.work; }
  const TurnCost& cost() const { return cost_; }

  // When it was made, on the clock, and how long ago that is.
  int64_t start_ns() const { return start_ns_; }
  double elapsed_ms() const { return milliseconds_since(clock_, start_ns_); }

 private:
  Clock& clock_;
  const int64_t start_ns_;
  TurnCost cost_;
};

}  // namespace ibid
