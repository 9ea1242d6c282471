// PrefixHolds: what keeps pages in the prefix tree, or keeps them longer than others: pins, and the marks of sequences
// at rest. A pinned node is never evicted; a node with a mark goes after all nodes without one.
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

 private:
  friend class PrefixHolds;
  size_t n_pins_ = 0;
  PrefixMark* marks_ = nullptr;
};

class PrefixHolds {
 public:
  // The queue learns which nodes have marks.
  explicit PrefixHolds(EvictionQueue& queue) : queue_(queue) {}

  // unpin() of a pin whose node is gone does nothing. pin() may throw std::bad_alloc.
  uint64_t pin(PrefixNode& node);
  void unpin(uint64_t pin);
  size_t n_pins() const { return pins_.size(); }

  // Moves the mark to the node (null: nowhere), whose path has the first `length` ids of the marked sequence. O(log
  // leaves).
  void set_mark(PrefixMark& mark, PrefixNode* node, size_t length);
  size_t n_marks() const { return n_marks_; }

  // `to` takes the place of `from`: its pins and marks are those of `to` now.
  void replace(PrefixNode& from, PrefixNode& to);
  // The node leaves the tree: its pins become void, and its marks go up to the node before it (null: there is none).
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

  EvictionQueue& queue_;
  std::map<uint64_t, PrefixNode*> pins_;
  uint64_t last_pin_ = 0;
  size_t n_marks_ = 0;
};

}  // namespace ibid
