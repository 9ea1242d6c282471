// The longest common prefix of two sequences of ids. Whoever asks how far two sequences agree asks here: the store, the
// tiers, the planner of prompts, the encoder that grows.
#pragma once

#include <algorithm>
#include <cstddef>

#include "ibid/token.h"

namespace ibid {

// How many ids a and b have in common from their beginning. O(result).
inline size_t common_prefix_length(TokenSpan a, TokenSpan b) {
  const auto end = a.begin() + static_cast<ptrdiff_t>(std::min(a.size(), b.size()));
  return static_cast<size_t>(std::mismatch(a.begin(), end, b.begin()).first - a.begin());
}

}  // namespace ibid
