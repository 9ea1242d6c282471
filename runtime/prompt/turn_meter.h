// TurnMeter: measures the cost of one step of a turn, on a clock. Each step has its own meter and returns the cost with
// its result; the turn adds them up. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/checked.h"
#include "base/clock.h"
#include "ibid/usage.h"

namespace ibid {

struct TurnCost {
  Timings timings;
  WorkCounters work;

  TurnCost& operator+=(const TurnCost& other) {
    timings += other.timings;
    work += other.work;
    return *this;
  }
};

// Adds `read`, the usage of a prefill that several answers share, to the turn that reports it. If KV of that prefill
// was evicted, the turn has computed it again. Each position of the prompt counts once: as cached if both the prefill
// and the turn found it cached.
inline void add_prefill_usage(Usage& turn, const Usage& read) {
  const size_t n_new = std::min(read.n_prefilled, saturating_sub(turn.n_cached, read.n_cached));
  turn.n_cached -= n_new;
  turn.n_prefilled += n_new;
  turn.n_reprefilled = std::min(std::max(turn.n_reprefilled, read.n_reprefilled), turn.n_prefilled);
  turn.n_from_disk = std::min(std::max(turn.n_from_disk, read.n_from_disk), turn.n_cached);
}

class TurnMeter {
 public:
  explicit TurnMeter(Clock& clock) : clock_(clock), start_ns_(clock.steady_ns()) {}

  // Returns an object whose lifetime is added to the time of a stage.
  [[nodiscard]] Stopwatch time(double Timings::*stage) { return {clock_, cost_.timings.*stage}; }

  void add(const TurnCost& cost) { cost_ += cost; }
  WorkCounters& work() { return cost_.work; }
  const TurnCost& cost() const { return cost_; }

  // Time of construction on the clock, and time since then.
  int64_t start_ns() const { return start_ns_; }
  double elapsed_ms() const { return milliseconds_since(clock_, start_ns_); }

 private:
  Clock& clock_;
  const int64_t start_ns_;
  TurnCost cost_;
};

}  // namespace ibid
