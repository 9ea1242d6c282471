// PrefixHolds: what keeps pages in the prefix tree, or keeps them longer than others: pins, and the marks of sequences
// at rest. A pinned node is never evicted; a node with a mark goes after all nodes without one.
//
// Where layers have windows, a sequence at rest goes on from the rows of its last pages, and so does everybody who
// begins with a declared prefix. These are their ends, and the pool is told of them (KvPagePool::mark_resume_point).
//
// Only pin() allocates. Not thread-safe: the store locks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace ibid {

struct PrefixNode;
class EvictionQueue;
class KvPage;
class KvPagePool;

// Where a sequence at rest stands: the path down to `node` begins with its first `length` ids, the last of which are
// the node's. Whoever owns the mark reads it; PrefixHolds writes it.
struct PrefixMark {
  PrefixNode* node = nullptr;  // null: nothing of the sequence is there
  size_t length = 0;

 private:
  friend class PrefixHolds;
  friend class NodeHolds;
  PrefixMark* previous_ = nullptr;  // the marks of the node, in no order
  PrefixMark* next_ = nullptr;
};

// What PrefixHolds keeps of a node.
class NodeHolds {
 public:
  size_t n_pins() const { return n_pins_; }
  bool has_marks() const { return marks_ != nullptr; }
  std::vector<size_t> mark_lengths() const;  // for the snapshot; in no order
  // The position at which a declared prefix ends here; 0: none does.
  size_t prefix_end() const { return prefix_end_; }
  // Of how many ends it is one of the last pages, with a window.
  size_t n_ends() const { return n_ends_; }

 private:
  friend class PrefixHolds;
  size_t n_pins_ = 0;
  PrefixMark* marks_ = nullptr;
  size_t prefix_end_ = 0;
  size_t n_ends_ = 0;
};

class PrefixHolds {
 public:
  // The queue learns which nodes have marks.
  PrefixHolds(EvictionQueue& queue, KvPagePool& pool) : queue_(queue), pool_(pool) {}

  // unpin() of a pin whose node is gone does nothing. pin() may throw std::bad_alloc.
  uint64_t pin(PrefixNode& node);
  void unpin(uint64_t pin);
  size_t n_pins() const { return pins_.size(); }

  // Moves the mark to the node (null: nowhere), whose path has the first `length` ids of the marked sequence. O(log
  // leaves).
  void set_mark(PrefixMark& mark, PrefixNode* node, size_t length);
  size_t n_marks() const { return n_marks_; }
  // A declared prefix of so many ids ends at the node.
  void set_prefix_end(PrefixNode& node, size_t length);

  // `to` takes the place of `from`: its pins, marks and ends are those of `to` now. The same for a node's page.
  void replace(PrefixNode& from, PrefixNode& to);
  void replace_page(const KvPage& from, const PrefixNode& node);
  // The node leaves the tree: its pins become void, and its marks and ends go up to the node before it (null: there is
  // none).
  void lift(PrefixNode& node, PrefixNode* parent);

  // Pins up to two nodes that must survive while room is made. Null: none.
  class Kept {
   public:
    Kept(PrefixNode* a, PrefixNode* b);
    ~Kept();
    Kept(const Kept&) = delete;
    Kept& operator=(const Kept&) = delete;

   private:
    PrefixNode* const nodes_[2];
  };

 private:
  void unlink(PrefixMark& mark);
  void count_end(PrefixNode* node, size_t length, size_t more);

  EvictionQueue& queue_;
  KvPagePool& pool_;
  std::map<uint64_t, PrefixNode*> pins_;
  uint64_t last_pin_ = 0;
  size_t n_marks_ = 0;
};

}  // namespace ibid
