// Geometric growth for containers that are reserved in small steps.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ibid {

// Reserves capacity for n items, at least doubling it, so that adding items one by one costs amortised O(1). capacity:
// the number of items that the container has memory for. May throw std::bad_alloc.
template <typename Container>
void reserve_geometric(Container& items, size_t n, size_t capacity) {
  if (n > capacity) items.reserve(std::max(n, 2 * capacity));
}
template <typename T>
void reserve_geometric(std::vector<T>& items, size_t n) {
  reserve_geometric(items, n, items.capacity());
}

}  // namespace ibid
