// Room in a vector that grows by a little at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ibid {

// Makes room for n items in all. It at least doubles what there is, so that an item more costs O(1). May throw
// std::bad_alloc.
template <typename T>
void reserve_geometric(std::vector<T>& items, size_t n) {
  if (n > items.capacity()) items.reserve(std::max(n, 2 * items.capacity()));
}

}  // namespace ibid
