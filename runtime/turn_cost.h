// TurnCost: what a step of a turn costs. Plain data.
#pragma once

#include <algorithm>

#include "base/checked.h"
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

// Adds `read`, the usage of reading a prompt ahead of several answers, to the usage of the turn that stands for it.
// Rows that were read may be gone when the turn begins, which then reads them itself: every position of the prompt
// counts once, as cached if it was so for both.
inline void add_reading(Usage& turn, const Usage& read) {
  const size_t n_new = std::min(read.n_prefilled, saturating_sub(turn.n_cached, read.n_cached));
  turn.n_cached -= n_new;
  turn.n_prefilled += n_new;
  turn.n_read_again = std::min(std::max(turn.n_read_again, read.n_read_again), turn.n_prefilled);
  turn.n_from_disk = std::min(std::max(turn.n_from_disk, read.n_from_disk), turn.n_cached);
}

}  // namespace ibid
