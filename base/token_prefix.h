// The longest common prefix of two token sequences. The store, the tiers, the prompt planner and the incremental
// encoder all use this function.
#pragma once

#include <algorithm>
#include <cstddef>

#include "ibid/token.h"

namespace ibid {

// Returns the length of the longest common prefix of a and b. O(result).
inline size_t common_prefix_length(TokenSpan a, TokenSpan b) {
  const auto end = a.begin() + static_cast<ptrdiff_t>(std::min(a.size(), b.size()));
  return static_cast<size_t>(std::mismatch(a.begin(), end, b.begin()).first - a.begin());
}

}  // namespace ibid
