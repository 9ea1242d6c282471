// StoreInsertion: inserts the pages of one entry into the tree of LruKvCacheStore. prepare() does all that can fail: it
// plans and allocates. apply() cannot fail, and is called after the store made room.
//
// StoreBudget: the budget of LruKvCacheStore. Neither is thread-safe: the store locks.
#pragma once

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "cache/pages/kv_cache_entry.h"
#include "cache/store/prefix_tree.h"
#include "cache/store/state_index.h"
#include "ibid/token.h"

namespace ibid {

class IdleSequence;

enum class Sharing {
  kPrivate,  // found by the same namespace only
  kShared,   // found by every namespace, so anyone can probe for its tokens: only for what is not secret
};

enum class Extent {
  kAll,
  kFullPages,  // without a partial last page, so that an entry that grows need not copy it
};

struct InsertOptions {
  Sharing sharing = Sharing::kPrivate;
  Extent extent = Extent::kAll;
  Retention retention = Retention::kOrdinary;
  // If set, it marks the stored positions of the entry after the call; after an error, nothing. It may mark other
  // positions before.
  IdleSequence* rest = nullptr;
};

class StoreInsertion {
 public:
  // `space` is the namespace of the entry. Exists within one call. Appends replaced pages to `replaced`, which the
  // caller frees after unlocking, because zeroing takes long.
  StoreInsertion(PrefixTree& tree, StoreSpaces& spaces, SpaceId space, KvCacheEntry& entry,
                 const InsertOptions& options, std::vector<KvPage>& replaced);

  // Finds known pages, and allocates nodes for the others. Error: kInvalidArgument if the pages belong to another
  // namespace. May throw std::bad_alloc.
  Status prepare();
  // Number of pages that the tree will have more.
  size_t n_new() const { return n_unknown() - (grown_leaf_ != nullptr ? 1 : 0); }
  // Pins the parents of the new nodes while the store makes room.
  PrefixHolds::Kept keep() const { return {parent_, grown_leaf_}; }
  // Inserts. Returns the last stored node of the entry's path. Cannot fail. REQUIRES: prepare() succeeded.
  PrefixNode& apply(RemovedNodes& removed);
  // Number of positions that are stored after apply(): all, except those of a last page that was left out.
  size_t n_known() const;

 private:
  void find_known_pages();
  void find_first_page();
  Status check_pages();
  void share_known_pages();
  void share_page(PrefixNode& node, size_t index);
  bool regain_window(PrefixNode& node, size_t index);
  size_t n_unknown() const { return n_pages_ - depth_; }
  TokenSpan page_ids(size_t page) const;

  PrefixTree& tree_;
  StoreSpaces& spaces_;
  KvCacheEntry& entry_;
  const SpaceId own_space_;  // of the entry
  const SpaceId space_;      // of the new nodes
  const Retention retention_;
  const size_t length_;  // positions to store
  std::vector<KvPage>& replaced_;
  PrefixNode* parent_ = nullptr;           // of the first new node; the pages up to it are known
  PrefixNode* covering_ = nullptr;         // known node that covers the partial last page
  size_t own_depth_ = 0;                   // full pages that the tree knows as the entry's own
  size_t depth_ = 0;                       // known full pages
  size_t n_pages_ = 0;                     // pages to store
  std::vector<PrefixNode*> private_path_;  // known private nodes to make shared, from the head on
  PrefixNode* grown_leaf_ = nullptr;       // its tokens are a prefix of the first new page, which replaces its page
  PrefixTree::NodeMap prepared_;           // the new nodes
};

// Makes room in the budget: for pages by evicting others and, if that is not enough, dropping logits; for logits by
// dropping older ones and evicting pages. Makes all of the room or none. With a page it removes the recurrent states
// that cannot be resumed without it.
class StoreBudget {
 public:
  // All references must outlive it.
  StoreBudget(size_t budget_bytes, size_t page_charge_bytes, const StoreSpaces& spaces, StateIndex& states,
              PrefixTree& tree)
      : budget_bytes_(budget_bytes),
        page_charge_bytes_(page_charge_bytes),
        spaces_(spaces),
        states_(states),
        tree_(tree) {}

  size_t budget_bytes() const { return budget_bytes_; }
  size_t page_charge_bytes() const { return page_charge_bytes_; }
  // Charge of pages and logits. Recurrent states have their own limit.
  size_t charge_bytes() const { return spaces_.total().bytes - states_.bytes(); }
  // Maximum charge of logits.
  size_t endings_budget_bytes() const { return budget_bytes_ / 16; }

  // Nodes and states that a call removes from the store.
  struct Removed {
    explicit Removed(size_t& n_total) : nodes(n_total), states(n_total) {}
    RemovedNodes nodes;
    StateIndex::Removed states;
  };

  // Error: kOutOfMemory, nothing changed.
  Status make_for(const StoreInsertion& insertion, Removed& removed);
  Status make_for(const CachedLogits& ending, PrefixNode& node, Removed& removed);
  // Removes the page that is evicted first, and returns its node. O(length of its sequence) if there are states.
  // REQUIRES: tree.count_evictable(1) == 1.
  const PrefixNode& evict_first(Removed& removed) noexcept;
  // Removes the states that cannot be resumed any more, after pages were removed in another way. O(all states).
  void remove_unreached(Removed& removed);

 private:
  StateIndex::IsReached is_reached() const;
  // Number of pages by which `bytes` exceed the budget.
  size_t excess_pages(size_t bytes) const;

  const size_t budget_bytes_;
  const size_t page_charge_bytes_;
  const StoreSpaces& spaces_;
  StateIndex& states_;
  PrefixTree& tree_;
};

}  // namespace ibid
