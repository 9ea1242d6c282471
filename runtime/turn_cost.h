// TurnCost: what a step of a turn costs. Plain data.
#pragma once

#include "ibid/usage.h"

namespace ibid {

// What a step cost.
struct TurnCost {
  Timings timings;
  WorkCounters work;

  TurnCost& operator+=(const TurnCost& other) {
    timings += other.timings;
    work += other.work;
    return *this;
  }
};

}  // namespace ibid
