#include "cache/store/eviction_scan.h"

#include <algorithm>
#include <bit>

#include "cache/store/prefix_node.h"

namespace ibid {

void EvictionScan::reserve(size_t n) {
  const size_t wanted = 2 * (n + 1);  // the root is a parent too
  if (wanted > slots_.size()) slots_ = std::vector<Slot>(std::bit_ceil(wanted));
}

size_t& EvictionScan::children_of(const PrefixNode& parent) {
  // The high bits of a product depend on all bits of the address.
  const uint64_t hash = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(&parent)) * 0x9e3779b97f4a7c15u;
  for (size_t at = hash >> 32;; ++at) {
    Slot& slot = slots_[at & (slots_.size() - 1)];
    if (slot.scan != scan_) slot = {&parent, scan_, 0};
    if (slot.parent == &parent) return slot.n_children;
  }
}

size_t EvictionScan::count(std::span<PrefixNode* const> leaves, size_t n) {
  if (n == 0) return 0;
  ++scan_;
  size_t found = 0;
  for (const PrefixNode* node : leaves) {
    for (; node->parent != nullptr && node->is_idle(); node = node->parent) {
      if (++found == n) return n;
      if (++children_of(*node->parent) < node->parent->children.size()) break;
    }
  }
  return found;
}

}  // namespace ibid
