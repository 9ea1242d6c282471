// Geometric growth for vectors that are reserved in small steps.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ibid {

// Reserves capacity for n items, at least doubling it, so that appending costs amortised O(1). May throw
// std::bad_alloc.
template <typename T>
void reserve_geometric(std::vector<T>& items, size_t n) {
  if (n > items.capacity()) items.reserve(std::max(n, 2 * items.capacity()));
}

}  // namespace ibid
