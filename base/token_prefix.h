// The longest common prefix of two sequences of tokens. The one such function of the tree: the store, the tiers, the
// prompt planner and the incremental encoder call it.
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
