// PrefixHolds: pins, and marks of idle sequences, in the prefix tree. A pinned node is never evicted; a marked node is
// evicted after all nodes without a mark.
//
// In models with sliding-window layers a sequence resumes with the window parts of the last pages before its resume
// point: an idle sequence at its mark, a sequence that begins with a declared prefix at the end of that prefix.
// PrefixHolds marks these pages as resume points in the pool (KvPagePool::mark_resume_point).
//
// Only pin() allocates. Not thread-safe: called under the store's lock.
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

// End of an idle sequence: the path to `node` begins with the first `length` tokens of the sequence, the last of which
// are in the node. The owner of the mark reads it; PrefixHolds writes it.
struct PrefixMark {
  PrefixNode* node = nullptr;  // node at which the sequence ends; null: nothing of the sequence is stored
  size_t length = 0;

 private:
  friend class PrefixHolds;
  friend class NodeHolds;
  PrefixMark* previous_ = nullptr;  // neighbours in the linked list of the marks at one node, in no particular order
  PrefixMark* next_ = nullptr;
};

// Member of PrefixNode that only PrefixHolds writes: pins and marks of the node.
class NodeHolds {
 public:
  size_t n_pins() const { return n_pins_; }
  bool has_marks() const { return marks_ != nullptr; }
  // Numbers of tokens of the idle sequences that end at this node, for the snapshot; in no particular order.
  std::vector<size_t> mark_lengths() const;
  // Position at which a declared prefix ends in this node; 0: no prefix ends here.
  size_t prefix_end() const { return prefix_end_; }
  // Number of resume points (ends of idle sequences and of declared prefixes) that need the window part of this page.
  size_t n_resume_points() const { return n_resume_points_; }

 private:
  friend class PrefixHolds;
  size_t n_pins_ = 0;
  PrefixMark* marks_ = nullptr;
  size_t prefix_end_ = 0;
  size_t n_resume_points_ = 0;
};

class PrefixHolds {
 public:
  // The constructed object calls queue.update() when a node gets its first mark or loses its last.
  PrefixHolds(EvictionQueue& queue, KvPagePool& pool) : queue_(queue), pool_(pool) {}

  // pin() returns a number to pass to unpin(), and may throw std::bad_alloc. unpin() does nothing if the node was
  // removed.
  uint64_t pin(PrefixNode& node);
  void unpin(uint64_t pin);
  size_t n_pins() const { return pins_.size(); }

  // Moves the mark of an idle sequence to a node whose path has the first `length` tokens of the sequence; null:
  // removes the mark. O(log leaves).
  void set_mark(PrefixMark& mark, PrefixNode* node, size_t length);
  size_t n_marks() const { return n_marks_; }
  // Records that a declared prefix of `length` tokens ends at the node.
  void set_prefix_end(PrefixNode& node, size_t length);

  // replace() moves pins, marks and resume points from the node `from` to `to`, which takes the place of `from` in the
  // tree. replace_page() is for a node with a new page: if the old page `from` was marked as a resume point, the new
  // page is marked instead.
  void replace(PrefixNode& from, PrefixNode& to);
  void replace_page(const KvPage& from, const PrefixNode& node);
  // Call before the node is removed. Removes its pins. Moves the marks of idle sequences, and the ends of declared
  // prefixes, from the node to its parent (null: drops them).
  void lift(PrefixNode& node, PrefixNode* parent);

  // Keeps up to two nodes (either may be null) pinned while the object exists and the store evicts others.
  class PinnedNodes {
   public:
    PinnedNodes(PrefixNode* a, PrefixNode* b);
    ~PinnedNodes();
    PinnedNodes(const PinnedNodes&) = delete;
    PinnedNodes& operator=(const PinnedNodes&) = delete;

   private:
    PrefixNode* const nodes_[2];
  };

 private:
  void unlink(PrefixMark& mark);
  void count_resume_points(PrefixNode* node, size_t length, size_t more);

  EvictionQueue& queue_;
  KvPagePool& pool_;
  std::map<uint64_t, PrefixNode*> pins_;
  uint64_t last_pin_ = 0;
  size_t n_marks_ = 0;
};

}  // namespace ibid
