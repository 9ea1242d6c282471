// PrefixTree: the index of LruKvCacheStore. It says which page holds which ids.
//
// A node is one page and the 1 to 64 ids of its rows; its parent is the page before it. Nodes with fewer than
// 64 ids are leaves. The children of a node are sorted by namespace and ids, and within one namespace none is a
// prefix of another. So the child with the longest common prefix is a neighbour of where the wanted ids would
// stand. One binary search finds it, to the token, and there is no hash that could collide. If several children
// begin with all of the wanted ids, the first of them is found, and logits are kept there.
//
// Below a shared node hang shared and private nodes, below a private node only nodes of its namespace. A page
// is held by one node at most. Leaves are queued (cache/store/eviction_queue.h), and a parent that loses its last
// child becomes a leaf that is at least as young as the child was.
//
// Only prepare() and PrefixHolds::pin() allocate, so nothing else can fail half-way. Not thread-safe: the store locks.
// It owns the nodes; pointers are valid until remove().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "cache/store/eviction_queue.h"
#include "cache/store/node_list.h"
#include "cache/store/prefix_endings.h"
#include "cache/store/prefix_holds.h"
#include "cache/store/prefix_node.h"
#include "cache/store/store_spaces.h"
#include "ibid/token.h"

namespace ibid {

class PrefixTree {
 public:
  // A node, and how many ids match.
  struct Match {
    PrefixNode* node = nullptr;
    size_t length = 0;
    PrefixEnding* ending = nullptr;  // longest_prefix(): the logits behind all of the ids, where known
  };
  // Nodes that are not in the tree yet, by their page.
  using NodeMap = std::unordered_map<const std::byte*, std::unique_ptr<PrefixNode>>;
  // The work done since construction: proof that a lookup costs its prompt and an insertion its new pages.
  struct Work {
    size_t tokens_compared = 0;
    size_t pages_touched = 0;
  };

  // Pages and the bytes of logits are counted in `spaces`. Both must outlive the tree.
  PrefixTree(StoreSpaces& spaces, Eviction eviction, KvPagePool& pool);

  PrefixNode& root() { return root_; }
  const PrefixNode& root() const { return root_; }
  size_t size() const { return nodes_.size(); }
  const Work& work() const { return work_; }

  // Returns the child of `parent` in `space` that shares the most ids with `ids`. O(log children + ids).
  Match best_child(const PrefixNode& parent, SpaceId space, TokenSpan ids);

  // The node of `space` or of the shared namespace whose path shares the most ids with `ids`, and how many
  // these are in the whole path. O(ids).
  Match longest_prefix(SpaceId space, TokenSpan ids);

  // The node that holds `page`, or null.
  PrefixNode* holder(const KvPage& page);

  // Memory for a node for each of `pages`, the first of them a child of `parent`. May throw std::bad_alloc;
  // what was prepared can be thrown away.
  NodeMap prepare(PrefixNode& parent, std::span<const KvPage> pages);

  // A new node out of `prepared`. REQUIRES: the parent is the root or full, no node holds the page, and
  // best_child(ids) neither covers ids nor is a prefix of them.
  PrefixNode& add(PrefixNode& parent, SpaceId space, TokenSpan ids, KvPage page, NodeMap& prepared);

  // The node's ids become `ids` and its page `page`, its place, pins and logits stay. Returns the page it had.
  // REQUIRES: the node is a leaf, its ids begin `ids`, and no other node holds the page.
  KvPage extend(PrefixNode& node, TokenSpan ids, KvPage page);
  // The node's page becomes `page`, with the rows of the same ids. Returns the one that it had. REQUIRES: no other node
  // holds the page.
  KvPage replace_page(PrefixNode& node, KvPage page);

  // Makes a private node shared; its children stay private. A shared leaf that begins its ids gives way to it
  // and leaves it its pins and logits. REQUIRES: the parent is the root or shared, and no shared sibling covers
  // the node.
  void share(PrefixNode& node, RemovedNodes& removed);

  // Removes a node, as PrefixHolds::lift() says. REQUIRES: the node is a leaf.
  void remove(PrefixNode& node, RemovedNodes& removed);
  // All nodes of the namespace and what hangs below them.
  void remove_space(SpaceId space, RemovedNodes& removed);

  // Notes that the node was used now. reused: by another sequence or in another turn than the one that made it.
  void touch(PrefixNode& node, bool reused) { queue_.touch(node, reused); }
  // The path down to the node, up to its `length`, is a declared prefix.
  void declare_prefix(PrefixNode& node, size_t length);

  // How many nodes could be removed, leaves first and idle ones only; counts no further than n.
  size_t count_evictable(size_t n) { return queue_.count_evictable(n); }
  // Removes the idle leaf that goes first, and returns it. REQUIRES: count_evictable(1) == 1.
  const PrefixNode& evict_first(RemovedNodes& removed);
  // All ids from the root to the end of a node, which may have left the tree last. May throw std::bad_alloc.
  static Tokens ids_to(const PrefixNode& node);

  PrefixHolds& holds() { return holds_; }
  const PrefixHolds& holds() const { return holds_; }
  PrefixEndings& endings() { return endings_; }
  const PrefixEndings& endings() const { return endings_; }

  // For the snapshot: all nodes, in no order; the leaves as they are queued.
  const NodeMap& nodes() const { return nodes_; }
  const std::vector<PrefixNode*>& leaves() const { return queue_.heap(); }

 private:
  struct Place {
    size_t index = 0;  // where the ids would stand among the children
    Match best;
  };

  Place find_place(const PrefixNode& parent, SpaceId space, TokenSpan ids);
  void improve(Match& best, const Match& child, size_t begin, TokenSpan ids);
  void walk_space(PrefixNode& from, SpaceId space, TokenSpan ids, size_t begin, Match& best);
  void link(PrefixNode& node);
  size_t unlink(PrefixNode& node);
  void discard(PrefixNode& node, RemovedNodes& removed);

  StoreSpaces& spaces_;
  PrefixNode root_;
  NodeMap nodes_;
  EvictionQueue queue_;
  PrefixHolds holds_;
  PrefixEndings endings_;
  uint64_t last_serial_ = 0;
  Work work_;
};

}  // namespace ibid
