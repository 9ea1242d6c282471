// BranchPoints: positions at which later prompts may diverge from a prompt. Plain data.
#pragma once

#include <cstddef>
#include <vector>

namespace ibid {

struct BranchPoints {
  size_t first_turn_boundary = 0;  // before the first user message; 0: unknown
  std::vector<size_t> answers;     // before and after each answer, ascending
};

}  // namespace ibid
