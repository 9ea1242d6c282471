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
#include <span>
#include <vector>

namespace ibid {

// EvictionScan: counts how many nodes of the prefix tree could be removed, leaves first and idle ones only. A node with
// children can go when all of them can, so the scan counts for each node that it comes to how many have; it keeps these
// numbers in a table of its own, made beforehand, so that counting cannot fail. Not thread-safe: the store locks.

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

struct PrefixNode;

enum class Eviction {
  kLru,    // least recently used
  kReuse,  // a page that was used again stays twice as long as one that was not, a declared prefix eight times
};

// How long inserted pages are to stay when memory is short.
enum class Retention {
  kOrdinary,
  kPrefix,  // a declared prefix, such as a system prompt: goes after the others
};

// What EvictionQueue keeps of a node.
class NodeRank {
 public:
  uint64_t rank() const { return rank_; }            // the lowest goes first,
  uint64_t last_used() const { return last_used_; }  // of equal ones the one that was not used for the longest time
  bool is_declared() const { return retention_ == Retention::kPrefix; }

 private:
  friend class EvictionQueue;
  static constexpr size_t kNotQueued = ~size_t{0};
  bool is_queued() const { return place_ != kNotQueued; }

  Retention retention_ = Retention::kOrdinary;
  bool was_reused_ = false;  // a second sequence, or a second turn, went through it
  uint64_t rank_ = 0;
  uint64_t last_used_ = 0;
  size_t place_ = kNotQueued;  // in the heap
};

class EvictionQueue {
 public:
  explicit EvictionQueue(Eviction eviction) : eviction_(eviction) {}

  // Room for n nodes. The only call that can throw std::bad_alloc.
  void reserve(size_t n);

  // The node, queued or not, is used now; by another sequence or in another turn than the one that made it, if reused.
  void touch(PrefixNode& node, bool reused = false);
  // The node is of a declared prefix, and used now.
  void declare(PrefixNode& node);
  // `to` takes the place of `from`: if that was declared, so is `to`.
  static void replace(const PrefixNode& from, PrefixNode& to);
  // Whether the node is live has changed.
  void update(PrefixNode& node);
  // Gives the parent the rank and the last use of `child` where these are higher, because whatever used the child
  // passed through the parent.
  static void inherit(PrefixNode& parent, const PrefixNode& child);

  // REQUIRES: room for one more; not queued.
  void push(PrefixNode& node);
  // Does nothing for a node that is not queued.
  void erase(PrefixNode& node);

  // How many nodes of the tree whose leaves are queued could be removed, leaves first and idle ones only; counts no
  // further than n.
  size_t count_evictable(size_t n) { return scan_.count(heap_, n); }
  // Returns the idle leaf that goes first. Leaves in front of it that somebody holds count as used now. REQUIRES:
  // there is an idle one.
  PrefixNode& first_idle();
  // `node` is evicted: what is used from now on ranks above it.
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
