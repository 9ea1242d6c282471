// PrefixNode: one page in the index of LruKvCacheStore, and the tokens of its positions. PrefixTree writes the node's
// own fields. Each other member is written by one class of the store, and may be read by all.
//
// NodeList and RemovedNodes collect nodes during a call of the store. Guarded by the lock of the store.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cache/pages/kv_page_pool.h"
#include "cache/store/cached_logits.h"
#include "cache/store/eviction_queue.h"
#include "cache/store/prefix_holds.h"
#include "cache/store/store_spaces.h"
#include "ibid/token.h"

namespace ibid {

struct PrefixNode;

// Member of PrefixNode that only NodeList writes: the next node of the list.
class NodeLink {
  friend class NodeList;
  PrefixNode* next_ = nullptr;
};

struct PrefixNode {
  uint64_t serial = 0;           // number of the node in order of creation; 0 for the root
  PrefixNode* parent = nullptr;  // null for the root only
  SpaceId space = kSharedSpace;
  size_t n_tokens = 0;
  std::array<TokenId, kPagePositions> ids{};
  KvPage page;  // empty for the root
  std::vector<PrefixNode*> children;

  NodeRank rank;      // rank in the eviction order, written by EvictionQueue
  NodeHolds holds;    // pins and marks, written by PrefixHolds
  NodeLogits logits;  // logits after the node's tokens, written by CachedLogitsIndex
  NodeLink link;      // next node of the NodeList that the node is in

  TokenSpan tokens() const { return {ids.data(), n_tokens}; }
  bool is_full() const { return n_tokens == kPagePositions; }
  // True if an idle sequence ends at this node. Live nodes are evicted after all others.
  bool is_live() const { return holds.has_marks(); }
  // True if only the tree holds the page and nothing pins it, so that removing the node frees the page.
  bool is_idle() const { return holds.n_pins() == 0 && page.use_count() == 1; }
};

// Last-in, first-out list of nodes. The links are in the nodes themselves, so that adding a node allocates nothing and
// cannot fail. Does not own the nodes. A node is in at most one list.
class NodeList {
 public:
  bool empty() const { return first_ == nullptr; }
  PrefixNode& first() const { return *first_; }
  void push(PrefixNode& node) { node.link.next_ = std::exchange(first_, &node); }
  // REQUIRES: not empty.
  PrefixNode& pop() {
    PrefixNode& node = *first_;
    first_ = std::exchange(node.link.next_, nullptr);
    return node;
  }

 private:
  PrefixNode* first_ = nullptr;
};

// Owner of the nodes that a call removed from the tree. Freeing a node zeroes its page, which takes long, so this
// object is destroyed after the lock of the store is released.
class RemovedNodes {
 public:
  // n_total: a counter that add() increments.
  explicit RemovedNodes(size_t& n_total) : n_total_(n_total) {}
  RemovedNodes(const RemovedNodes&) = delete;
  RemovedNodes& operator=(const RemovedNodes&) = delete;
  ~RemovedNodes() { clear(); }
  void add(std::unique_ptr<PrefixNode> node) {
    nodes_.push(*node.release());
    ++size_;
    ++n_total_;
  }
  void clear() {
    while (!nodes_.empty()) const std::unique_ptr<PrefixNode> node(&nodes_.pop());
    size_ = 0;
  }
  size_t size() const { return size_; }

 private:
  NodeList nodes_;
  size_t size_ = 0;
  size_t& n_total_;
};

}  // namespace ibid
