// EvictionQueue: decides which leaf of the prefix tree is evicted first.
//
// GreedyDual-Size-Frequency (Cherkasova 1998) without a clock, for pages, which all have one size: a node that
// is used gets the rank L + value, where L is the rank of what was evicted last, and the lowest rank goes
// first. So an unused page of value v outlasts v turnovers of the cache. Of equal ranks the least recently used
// goes first. With one value for all pages this is LRU. docs/decisions/0012-reused-pages-stay-longer.md has the
// values, and says why the position of a page does not count.
//
// Live nodes are those where sequences at rest stand. They go after all others, the least recently used first,
// because their owners will want them, and nobody knows whose turn is next
// (docs/decisions/0015-a-session-at-rest-keeps-its-ids.md).
//
// A binary heap that knows each node's place: O(log n). Nothing but reserve() allocates. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cache/store/prefix_node.h"

namespace ibid {

enum class Eviction {
  kLru,    // least recently used
  kReuse,  // a page that was used again stays twice as long as one that was not, a declared prefix eight times
};

class EvictionQueue {
 public:
  explicit EvictionQueue(Eviction eviction) : eviction_(eviction) {}

  // Room for n nodes. The only call that can throw std::bad_alloc.
  void reserve(size_t n);

  // The node, queued or not, is used now.
  void touch(PrefixNode& node);
  // Whether the node is live has changed.
  void update(PrefixNode& node);
  // Gives the parent the rank and the last use of `child` where these are higher, because whatever used the child
  // passed through the parent.
  static void inherit(PrefixNode& parent, const PrefixNode& child);

  // REQUIRES: room for one more; not queued.
  void push(PrefixNode& node);
  // Does nothing for a node that is not queued.
  void erase(PrefixNode& node);

  // Returns the idle leaf that goes first. Leaves in front of it that somebody holds count as used now. REQUIRES:
  // there is an idle one.
  PrefixNode& first_idle();
  // `node` is evicted: what is used from now on ranks above it.
  void evicted(const PrefixNode& node);

  const std::vector<PrefixNode*>& heap() const { return heap_; }

 private:
  static bool goes_before(const PrefixNode& a, const PrefixNode& b) {
    if (a.is_live() != b.is_live()) return b.is_live();
    if (!a.is_live() && a.rank != b.rank) return a.rank < b.rank;
    return a.last_used != b.last_used ? a.last_used < b.last_used : a.serial < b.serial;
  }
  uint64_t value(const PrefixNode& node) const;
  void put(size_t place, PrefixNode* node);
  void sift(size_t place);

  const Eviction eviction_;
  std::vector<PrefixNode*> heap_;
  uint64_t last_rank_ = 0;
  uint64_t tick_ = 0;
};

}  // namespace ibid
