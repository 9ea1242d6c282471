// EvictionQueue: the leaves of the prefix tree in eviction order.
//
// GreedyDual-Size-Frequency (Cherkasova 1998) for pages, which all have one size: when a node is used, it gets rank L +
// value, where L is the rank of the last evicted node; the node with the lowest rank is evicted first. So an unused
// page of value v stays while all pages are replaced v times. Nodes of equal rank are evicted in LRU order, so giving
// all pages the same value results in LRU. docs/decisions/0012-reused-pages-stay-longer.md has the values, and explains
// why the position of a page has no influence.
//
// Live nodes (at which idle sequences end) are evicted after all others, in LRU order: their owners will resume, in an
// unknown order (docs/decisions/0015-a-session-at-rest-keeps-its-ids.md).
//
// A binary heap; each node stores its index in the heap. O(log n). Only reserve() allocates. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ibid {

struct PrefixNode;

// Counts the nodes of the prefix tree that could be evicted: nodes whose page only the tree holds, and whose children
// could all be evicted. The scan starts at the leaves and counts, for each parent, the children that can be evicted, in
// a table that is allocated beforehand, so that counting cannot fail. Not thread-safe: called under the store's lock.
class EvictionScan {
 public:
  // Reserves memory for count() in a tree of at most n nodes, so that count() allocates nothing. May throw
  // std::bad_alloc.
  void reserve(size_t n);
  // Returns the number of evictable nodes, at most n: counts from the leaves towards the root. REQUIRES: reserve() was
  // called for the tree.
  size_t count(std::span<PrefixNode* const> leaves, size_t n);

 private:
  // Number of evictable children of `parent` in scan number `scan`. A slot whose `scan` is an earlier one is free.
  struct Slot {
    const PrefixNode* parent = nullptr;
    uint64_t scan = 0;
    size_t n_children = 0;
  };
  size_t& children_of(const PrefixNode& parent);

  std::vector<Slot> slots_;  // hash table; its size is a power of two, at least twice the maximum number of parents
  uint64_t scan_ = 0;
};

enum class Eviction {
  kLru,    // evicts the least recently used page first
  kReuse,  // a reused page stays twice as long as other pages, a declared prefix eight times as long
};

// How long inserted pages stay when memory is short.
enum class Retention {
  kOrdinary,
  kPrefix,  // a declared prefix, such as a system prompt: evicted after pages that are not declared
};

// Member of PrefixNode that only EvictionQueue writes: the node's rank, which decides how soon the node is evicted.
class NodeRank {
 public:
  uint64_t rank() const { return rank_; }  // priority; nodes of the lowest rank are evicted first
  // Time of the last use; among nodes of equal rank, the least recently used is evicted first.
  uint64_t last_used() const { return last_used_; }
  bool is_declared() const { return retention_ == Retention::kPrefix; }

 private:
  friend class EvictionQueue;
  static constexpr size_t kNotQueued = ~size_t{0};
  bool is_queued() const { return place_ != kNotQueued; }

  Retention retention_ = Retention::kOrdinary;
  bool was_reused_ = false;  // the node was used by a second sequence, or in a second turn
  uint64_t rank_ = 0;
  uint64_t last_used_ = 0;
  size_t place_ = kNotQueued;  // index in the heap
};

class EvictionQueue {
 public:
  explicit EvictionQueue(Eviction eviction) : eviction_(eviction) {}

  // Reserves memory for n nodes. The only call that can throw std::bad_alloc.
  void reserve(size_t n);

  // Marks a node, queued or not, as used now. reused: the node was created for another sequence or in another turn.
  void touch(PrefixNode& node, bool reused = false);
  // Makes the node part of a declared prefix, such as a system prompt (Retention::kPrefix), and marks it as used now.
  void declare(PrefixNode& node);
  // Call when the node `to` replaces `from` in the tree: makes `to` part of a declared prefix if `from` is part of one.
  static void replace(const PrefixNode& from, PrefixNode& to);
  // Moves the node to its new place in the queue after its PrefixNode::is_live() has changed.
  void update(PrefixNode& node);
  // Raises rank and last use of the parent to those of `child`, because a use of a child also uses its parent.
  static void inherit(PrefixNode& parent, const PrefixNode& child);

  // Adds a node to the queue. REQUIRES: reserve() reserved memory for one more node; the node is not queued.
  void push(PrefixNode& node);
  // Removes a node from the queue. Does nothing if the queue does not have the node.
  void erase(PrefixNode& node);

  // Number of nodes of the tree that could be evicted, at most n. REQUIRES: all leaves of the tree are queued.
  size_t count_evictable(size_t n) { return scan_.count(heap_, n); }
  // Returns the idle leaf (see PrefixNode::is_idle()) that is evicted first. Leaves that precede it in eviction order
  // are pinned or held by an entry, and are marked as used now. REQUIRES: at least one leaf is idle.
  PrefixNode& first_idle();
  // Call when `node` is evicted. From then on, each use gives a node a higher rank than the rank of the evicted node.
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
