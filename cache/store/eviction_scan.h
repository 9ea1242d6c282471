// EvictionScan: counts how many nodes of the prefix tree could be removed, leaves first and idle ones only. A node with
// children can go when all of them can, so the scan counts for each node that it comes to how many have; it keeps these
// numbers in a table of its own, made beforehand, so that counting cannot fail. Not thread-safe: the store locks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ibid {

struct PrefixNode;

class EvictionScan {
 public:
  // Room for the parents of a tree of n nodes. May throw std::bad_alloc.
  void reserve(size_t n);
  // Counts from these leaves up to the root, no further than n. REQUIRES: room for the tree.
  size_t count(std::span<PrefixNode* const> leaves, size_t n);

 private:
  // How many children of `parent` could go in this scan. A slot that another scan filled is free.
  struct Slot {
    const PrefixNode* parent = nullptr;
    uint64_t scan = 0;
    size_t n_children = 0;
  };
  size_t& children_of(const PrefixNode& parent);

  std::vector<Slot> slots_;  // a power of two of them, at least twice as many as there can be parents
  uint64_t scan_ = 0;
};

}  // namespace ibid
