// PromptCuts: where later prompts may part from one. Plain data.
#pragma once

#include <cstddef>
#include <vector>

namespace ibid {

struct PromptCuts {
  size_t opening = 0;           // in front of what the user says first; 0: not known
  std::vector<size_t> answers;  // in front of each answer and behind it, ascending
};

}  // namespace ibid
