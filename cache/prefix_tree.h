// PrefixTree: which page holds which ids: the index of LruKvCacheStore.
//
// A node is one page and the 1 to 64 ids of its rows; its parent is the page before it. Nodes with fewer than
// 64 ids are leaves. The children of a node are sorted by namespace and ids, and within one namespace none is
// a prefix of another: so the child with the longest common prefix is a neighbour of where the wanted ids
// would stand, one binary search finds it at token granularity, and there is no hash that could collide.
//
// Below a shared node hang shared and private nodes, below a private node only nodes of its namespace. A page
// is held by one node at most. Leaves are queued by age: the oldest is evicted first, and a parent that loses
// its last child becomes a leaf that is at least as young as the child was.
//
// Not thread-safe: the store locks. It owns the nodes; pointers are valid until remove().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "base/types.h"
#include "cache/kv_page_pool.h"

namespace ibid {

using SpaceId = uint64_t;  // a namespace's number
inline constexpr SpaceId kSharedSpace = 0;

struct PrefixNode {
  uint64_t serial = 0;           // order of creation; the root has 0
  PrefixNode* parent = nullptr;  // null for the root only
  SpaceId space = kSharedSpace;
  size_t n_ids = 0;
  std::array<TokenId, kPagePositions> ids{};
  KvPage page;  // the root has none
  std::vector<PrefixNode*> children;
  size_t n_pins = 0;
  uint64_t last_used = 0;
  uint64_t scan = 0;            // scratch of can_evict(): the scan that visited it last,
  size_t scanned_children = 0;  // and how many children could go in that scan

  TokenSpan tokens() const { return {ids.data(), n_ids}; }
  bool is_full() const { return n_ids == kPagePositions; }
  // Nobody but the tree holds the page, so that removing the node frees it.
  bool is_idle() const { return n_pins == 0 && page.use_count() == 1; }
};

class PrefixTree {
 public:
  // A node and how many of its ids match.
  struct Match {
    PrefixNode* node = nullptr;
    size_t length = 0;
  };
  // The work done since construction: proof that a lookup costs its prompt and an insertion its new pages.
  struct Work {
    size_t tokens_compared = 0;
    size_t pages_touched = 0;
  };

  PrefixTree();

  PrefixNode& root() { return root_; }
  const PrefixNode& root() const { return root_; }
  size_t size() const { return nodes_.size(); }
  const Work& work() const { return work_; }

  // The child of `parent` in `space` that shares the most ids with `ids`. O(log children + ids).
  Match best_child(const PrefixNode& parent, SpaceId space, TokenSpan ids);

  // The node of `space` or of the shared namespace whose path shares the most ids with `ids`, and how many
  // these are in the whole path. O(ids).
  Match longest_prefix(SpaceId space, TokenSpan ids);

  // The node that holds `page`, or null.
  PrefixNode* holder(const KvPage& page);

  // A new node. REQUIRES: the parent is the root or full, no node holds the page, and best_child(ids) neither
  // covers ids nor is a prefix of them.
  PrefixNode& add(PrefixNode& parent, SpaceId space, TokenSpan ids, KvPage page);

  // The node's ids become `ids` and its page `page`, its place and pins stay.
  // REQUIRES: the node is a leaf, its ids begin `ids`, and no other node holds the page.
  void extend(PrefixNode& node, TokenSpan ids, KvPage page);

  // Makes a private node shared; its children stay private. A shared leaf that begins its ids gives way to it
  // and leaves it its pins. REQUIRES: the parent is the root or shared, and no shared sibling covers the
  // node.
  void share(PrefixNode& node);

  // Its pins are void from now on. REQUIRES: the node is a leaf.
  void remove(PrefixNode& node);

  // A pinned node is not idle. unpin() of a void pin does nothing.
  uint64_t pin(PrefixNode& node);
  void unpin(uint64_t pin);
  size_t n_pins() const { return pins_.size(); }

  // The node was used now. O(log leaves).
  void touch(PrefixNode& node);

  // Whether n nodes could be removed, leaves first and idle ones only. Changes nothing.
  bool can_evict(size_t n);

  // The idle leaf that was not used for the longest time; leaves that somebody holds count as used now.
  // REQUIRES: can_evict(1).
  PrefixNode& oldest_idle_leaf();

  // For the snapshot and for clearing: all nodes, in no order; all leaves, the oldest first.
  std::vector<PrefixNode*> nodes() const;
  std::vector<const PrefixNode*> leaves() const { return {leaves_.begin(), leaves_.end()}; }

 private:
  struct Older {
    bool operator()(const PrefixNode* a, const PrefixNode* b) const {
      return a->last_used != b->last_used ? a->last_used < b->last_used : a->serial < b->serial;
    }
  };
  struct Place {
    size_t index = 0;  // where the ids would stand among the children
    Match best;
  };

  Place find_place(const PrefixNode& parent, SpaceId space, TokenSpan ids);
  void walk_space(PrefixNode& from, SpaceId space, TokenSpan ids, size_t begin, Match& best);
  void link(PrefixNode& node);
  void unlink(PrefixNode& node);

  PrefixNode root_;
  std::unordered_map<const std::byte*, std::unique_ptr<PrefixNode>> nodes_;  // by page
  std::set<PrefixNode*, Older> leaves_;
  std::map<uint64_t, PrefixNode*> pins_;
  uint64_t last_pin_ = 0;
  uint64_t last_serial_ = 0;
  uint64_t tick_ = 0;
  uint64_t scan_ = 0;
  Work work_;
};

}  // namespace ibid
