// EvictionQueue: the leaves of the prefix tree in eviction order.
//
// GreedyDual-Size-Frequency (Cherkasova 1998) without a clock, for pages, which all have one size: a node that is used
// gets rank L + value, where L is the rank of the last evicted node, and the lowest rank is evicted first. So an unused
// page of value v outlasts v turnovers of the cache. Ties are evicted in LRU order, so one value for all pages gives
// LRU. For the values, and why the position of a page does not count, see
// docs/decisions/0012-reused-pages-stay-longer.md.
//
// Live nodes, those at which idle sequences end, are evicted after all others, in LRU order: their owners will resume,
// in an order that is unknown (docs/decisions/0015-a-session-at-rest-keeps-its-ids.md).
//
// A binary heap that stores each node's index: O(log n). Only reserve() allocates. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ibid {

struct PrefixNode;

// Counts the nodes of the prefix tree that could be removed: idle ones, leaves first. A node with children can be
// removed if all of them can, so the scan counts the removable children of each node that it reaches, in a table
// allocated before, so that counting cannot fail. Not thread-safe: the store locks.
class EvictionScan {
 public:
  // Makes room for the parents in a tree of n nodes. May throw std::bad_alloc.
  void reserve(size_t n);
  // Counts from these leaves up to the root, at most to n. REQUIRES: room for the tree.
  size_t count(std::span<PrefixNode* const> leaves, size_t n);

 private:
  // Number of removable children of `parent` in scan number `scan`. A slot of an earlier scan is free.
  struct Slot {
    const PrefixNode* parent = nullptr;
    uint64_t scan = 0;
    size_t n_children = 0;
  };
  size_t& children_of(const PrefixNode& parent);

  std::vector<Slot> slots_;  // a power of two, at least twice the maximum number of parents
  uint64_t scan_ = 0;
};

enum class Eviction {
  kLru,    // least recently used
  kReuse,  // a reused page stays twice as long as others, a declared prefix eight times
};

// How long inserted pages stay when memory is short.
enum class Retention {
  kOrdinary,
  kPrefix,  // a declared prefix, such as a system prompt: evicted after the others
};

// Member of PrefixNode that is written by EvictionQueue.
class NodeRank {
 public:
  uint64_t rank() const { return rank_; }            // the lowest is evicted first,
  uint64_t last_used() const { return last_used_; }  // of equal ones the least recently used
  bool is_declared() const { return retention_ == Retention::kPrefix; }

 private:
  friend class EvictionQueue;
  static constexpr size_t kNotQueued = ~size_t{0};
  bool is_queued() const { return place_ != kNotQueued; }

  Retention retention_ = Retention::kOrdinary;
  bool was_reused_ = false;  // used by a second sequence, or in a second turn
  uint64_t rank_ = 0;
  uint64_t last_used_ = 0;
  size_t place_ = kNotQueued;  // index in the heap
};

class EvictionQueue {
 public:
  explicit EvictionQueue(Eviction eviction) : eviction_(eviction) {}

  // Makes room for n nodes. The only call that can throw std::bad_alloc.
  void reserve(size_t n);

  // Marks a node, queued or not, as used now. reused: by another sequence, or in another turn, than the one that made
  // it.
  void touch(PrefixNode& node, bool reused = false);
  // Makes the node part of a declared prefix, and marks it as used now.
  void declare(PrefixNode& node);
  // Declares `to`, which replaces `from`, if `from` was declared.
  static void replace(const PrefixNode& from, PrefixNode& to);
  // Call after PrefixNode::is_live() of the node changed.
  void update(PrefixNode& node);
  // Raises the parent's rank and last use to those of `child`: each use of the child passed through the parent.
  static void inherit(PrefixNode& parent, const PrefixNode& child);

  // REQUIRES: room for one more; not queued.
  void push(PrefixNode& node);
  // Does nothing if the node is not queued.
  void erase(PrefixNode& node);

  // Number of nodes that could be removed from the tree whose leaves are queued: idle ones, leaves first; at most n.
  size_t count_evictable(size_t n) { return scan_.count(heap_, n); }
  // Returns the idle leaf that is evicted first, and marks leaves before it, which are held, as used now. REQUIRES: one
  // is idle.
  PrefixNode& first_idle();
  // Call when `node` is evicted: nodes that are used from now on rank above it.
  void evicted(const PrefixNode& node);

  const std::vector<PrefixNode*>& heap() const { return heap_; }

 private:
  static bool goes_before(const PrefixNode& a, const PrefixNode& b);
  uint64_t value(const NodeRank& rank) const;
  void put(size_t place, PrefixNode* node);
  void sift(size_t place);

  const Eviction eviction_;
  std::vector<PrefixNode*> heap_;
  EvictionScan scan_;
  uint64_t last_rank_ = 0;
  uint64_t tick_ = 0;
};

}  // namespace ibid
