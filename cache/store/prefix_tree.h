// PrefixTree: the index of LruKvCacheStore, which maps tokens to pages.
//
// A node is one page and the 1 to 64 tokens of its positions; its parent is the page before it. Nodes with fewer than
// 64 tokens are leaves. Children are sorted by namespace and tokens, and within one namespace no child is a prefix of
// another. So the child with the longest common prefix is next to the insertion point of the wanted tokens, and one
// binary search finds it, exact to the token, without hashes that could collide. If several children begin with all
// wanted tokens, the search returns the first of these; logits after the wanted tokens are kept there too.
//
// The children of a shared node are shared or private; those of a private node belong to its namespace. A page is in at
// most one node. Leaves are queued for eviction (cache/store/eviction_queue.h); a parent that loses its last child
// becomes a leaf, at least as recently used as the child.
//
// Only prepare() and PrefixHolds::pin() allocate, so all other changes cannot fail. Not thread-safe: called under the
// store's lock. Owns the nodes; pointers to them are valid until remove().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "cache/store/cached_logits.h"
#include "cache/store/eviction_queue.h"
#include "cache/store/prefix_holds.h"
#include "cache/store/prefix_node.h"
#include "cache/store/store_observer.h"
#include "cache/store/store_spaces.h"
#include "ibid/token.h"

namespace ibid {

class PrefixTree {
 public:
  // A node, and the number of tokens that its path has in common with the wanted tokens.
  struct Match {
    PrefixNode* node = nullptr;
    size_t length = 0;
    CachedLogits* cached_logits = nullptr;  // logits after all wanted tokens, or null; only longest_prefix() sets it
  };
  // Nodes that are not in the tree yet, keyed by the data of their page.
  using NodeMap = std::unordered_map<const std::byte*, std::unique_ptr<PrefixNode>>;
  // Counters since construction; tests use them to verify that a lookup costs O(prompt) and an insertion O(new pages).
  struct Work {
    size_t tokens_compared = 0;
    size_t pages_touched = 0;
  };

  // Counts pages and bytes of logits in `spaces`. `spaces` and `pool` must outlive the tree.
  PrefixTree(StoreSpaces& spaces, Eviction eviction, KvPagePool& pool);
  ~PrefixTree();

  PrefixNode& root() { return root_; }
  const PrefixNode& root() const { return root_; }
  size_t size() const { return nodes_.size(); }
  const Work& work() const { return work_; }

  // Returns the child of `parent` in `space` with the most tokens in common with `ids`. O(log children + ids).
  Match best_child(const PrefixNode& parent, SpaceId space, TokenSpan ids);

  // Returns the node, in `space` or in the shared namespace, whose path has the most tokens in common with `ids`.
  // Match::length is the number of these tokens, counted from the root. O(ids).
  Match longest_prefix(SpaceId space, TokenSpan ids);

  // Returns the node that holds `page`, or null.
  PrefixNode* holder(const KvPage& page);

  // Allocates a node for each page; the first node will be a child of `parent`, each later node a child of the previous
  // one. Unused nodes may be destroyed. May throw std::bad_alloc.
  NodeMap prepare(PrefixNode& parent, std::span<const KvPage> pages);

  // Moves a node from `prepared` into the tree.
  // REQUIRES: the parent is the root or full, no node holds the page, and the tokens of best_child(ids) neither begin
  // with `ids` nor are a prefix of `ids`.
  PrefixNode& add(PrefixNode& parent, SpaceId space, TokenSpan ids, KvPage page, NodeMap& prepared);

  // Replaces tokens and page of a leaf; its place in the tree, pins and logits stay. Returns the old page.
  // REQUIRES: the node's tokens are a prefix of `ids`, and no other node holds the page.
  KvPage extend(PrefixNode& node, TokenSpan ids, KvPage page);
  // Replaces the page of a node by another page of the same tokens. Returns the old page. REQUIRES: no node holds the
  // new page.
  KvPage replace_page(PrefixNode& node, KvPage page);

  // Makes a private node shared; its children stay private. If a shared sibling is a leaf whose tokens are a prefix of
  // the node's tokens, removes this leaf and moves its pins and logits to the node.
  // REQUIRES: the parent is the root or shared, and no shared sibling begins with all tokens of the node.
  void share(PrefixNode& node, RemovedNodes& removed);

  // Removes a leaf. The pins of the leaf end, and its marks move to the parent (PrefixHolds::lift()).
  void remove(PrefixNode& node, RemovedNodes& removed);
  // Removes all nodes of the namespace and their descendants.
  void remove_space(SpaceId space, RemovedNodes& removed);

  // Marks the node as used now. reused: the node was created for another sequence or in another turn.
  void touch(PrefixNode& node, bool reused) { queue_.touch(node, reused); }
  // Makes the first `length` tokens of the path to the node a declared prefix, which is evicted late
  // (Retention::kPrefix).
  void declare_prefix(PrefixNode& node, size_t length);

  // Number of evictable nodes, at most n: nodes whose page only the tree holds, and whose children are all evictable.
  size_t count_evictable(size_t n) { return queue_.count_evictable(n); }
  // Removes the idle leaf that is evicted first, and returns it. REQUIRES: count_evictable(1) == 1.
  const PrefixNode& evict_first(RemovedNodes& removed);
  // Returns all tokens from the root to the end of `node`, which may be the last removed node. May throw
  // std::bad_alloc.
  static Tokens ids_to(const PrefixNode& node);

  // Reports all full pages and later changes of them to `observer`, which may be null, and returns the earlier observer
  // in it.
  void observe(std::shared_ptr<StoreObserver>& observer);

  PrefixHolds& holds() { return holds_; }
  const PrefixHolds& holds() const { return holds_; }
  CachedLogitsIndex& logits() { return logits_; }
  const CachedLogitsIndex& logits() const { return logits_; }

  // For the snapshot: nodes() returns all nodes, in no particular order; leaves() returns the leaves as a heap.
  const NodeMap& nodes() const { return nodes_; }
  const std::vector<PrefixNode*>& leaves() const { return queue_.heap(); }

 private:
  struct Place {
    size_t index = 0;  // insertion point among the children
    Match best;
  };

  Place find_place(const PrefixNode& parent, SpaceId space, TokenSpan ids);
  void improve(Match& best, const Match& child, size_t begin, TokenSpan ids);
  void walk_space(PrefixNode& from, SpaceId space, TokenSpan ids, size_t begin, Match& best);
  void link(PrefixNode& node);
  size_t unlink(PrefixNode& node);
  void discard(PrefixNode& node, RemovedNodes& removed);
  void report_stored(const PrefixNode& node) const;

  StoreSpaces& spaces_;
  PrefixNode root_;
  NodeMap nodes_;
  EvictionQueue queue_;
  PrefixHolds holds_;
  CachedLogitsIndex logits_;
  uint64_t last_serial_ = 0;
  Work work_;
  std::shared_ptr<StoreObserver> observer_;  // may be null
};

}  // namespace ibid
