// StoreInsertion: inserts the pages of one entry into the tree of LruKvCacheStore. prepare() does everything that can
// fail: it plans and allocates. Then the store makes room, and apply() inserts the pages, which cannot fail.
//
// StoreBudget: the budget of LruKvCacheStore. Neither class is thread-safe: they are called under the store's lock.
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
  kPrivate,  // only the same namespace finds the pages
  kShared,   // every namespace finds the pages, so anyone can probe for their tokens: only for text that is not secret
};

enum class Extent {
  kAll,
  kFullPages,  // leaves out a partial last page, so that an entry that grows need not copy that page
};

struct InsertOptions {
  Sharing sharing = Sharing::kPrivate;
  Extent extent = Extent::kAll;
  Retention retention = Retention::kOrdinary;
  // If set, the call makes `rest` mark the stored positions of the entry, so that they are evicted late; after an error
  // `rest` marks nothing. Positions that it marked before are unmarked.
  IdleSequence* idle = nullptr;
};

class StoreInsertion {
 public:
  // `space` is the namespace of the entry. The object lives within one call of the store. It appends the entry's pages
  // that are replaced by stored ones to `replaced`; the caller frees them after unlocking, because zeroing takes long.
  StoreInsertion(PrefixTree& tree, StoreSpaces& spaces, SpaceId space, KvCacheEntry& entry,
                 const InsertOptions& options, std::vector<KvPage>& replaced);

  // Finds pages that are already stored, and allocates nodes for the others. Error: kInvalidArgument if the pages
  // belong to another namespace. May throw std::bad_alloc.
  Status prepare();
  // Number of pages by which apply() will increase the tree.
  size_t n_new() const { return n_unknown() - (grown_leaf_ != nullptr ? 1 : 0); }
  // Pins the parents of the new nodes while the store makes room.
  PrefixHolds::PinnedNodes pin_parents() const { return {parent_, grown_leaf_}; }
  // Inserts the pages. Returns the last stored node of the entry's path. Cannot fail. REQUIRES: prepare() succeeded.
  PrefixNode& apply(RemovedNodes& removed);
  // Number of positions that are stored after apply(): all positions, or all but those of a partial last page that was
  // left out (Extent).
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
  const SpaceId own_space_;  // namespace of the entry
  const SpaceId space_;      // namespace of the new nodes
  const Retention retention_;
  const size_t length_;  // number of positions to store
  std::vector<KvPage>& replaced_;
  PrefixNode* parent_ = nullptr;               // parent of the first new node; this parent and its ancestors are stored
  PrefixNode* node_with_last_page_ = nullptr;  // stored node whose tokens begin with those of the partial last page
  size_t own_depth_ = 0;  // number of the entry's full pages up to the last one that is itself in the store
  size_t depth_ = 0;      // number of the entry's full pages whose tokens are stored, in the entry's or in other pages
  size_t n_pages_ = 0;    // number of pages to store
  std::vector<PrefixNode*> private_path_;  // path of stored private nodes to make shared, starting at the root
  PrefixNode* grown_leaf_ = nullptr;       // stored leaf whose tokens and page the first new page replaces
  PrefixTree::NodeMap prepared_;           // the nodes to add
};

// Makes room in the budget. For pages it evicts other pages and, if that is not enough, drops logits; for logits it
// drops older logits and evicts pages. If the room cannot be made, returns an error and evicts nothing. Together with
// each page it evicts the recurrent states that no sequence can resume from without that page.
class StoreBudget {
 public:
  // The referenced objects must outlive it.
  StoreBudget(size_t budget_bytes, size_t page_charge_bytes, const StoreSpaces& spaces, StateIndex& states,
              PrefixTree& tree)
      : budget_bytes_(budget_bytes),
        page_charge_bytes_(page_charge_bytes),
        spaces_(spaces),
        states_(states),
        tree_(tree) {}

  size_t budget_bytes() const { return budget_bytes_; }
  size_t page_charge_bytes() const { return page_charge_bytes_; }
  // Bytes charged for pages and logits. Recurrent states have their own limit.
  size_t charge_bytes() const { return spaces_.total().bytes - states_.bytes(); }
  // Maximum bytes charged for logits.
  size_t logits_budget_bytes() const { return budget_bytes_ / 16; }

  // Nodes and states that a call removes from the store.
  struct Removed {
    explicit Removed(size_t& n_total) : nodes(n_total), states(n_total) {}
    RemovedNodes nodes;
    StateIndex::Removed states;
  };

  // make_for() makes room for a page insertion or for logits. Error: kOutOfMemory, nothing changed.
  Status make_room_for(const StoreInsertion& insertion, Removed& removed);
  Status make_room_for(const CachedLogits& cached_logits, PrefixNode& node, Removed& removed);
  // Removes the page that is evicted first, and returns its node. If there are recurrent states, O(length of the page's
  // sequence). REQUIRES: tree.count_evictable(1) == 1.
  const PrefixNode& evict_first(Removed& removed) noexcept;
  // Call after pages were removed other than by eviction. Removes the states at which no sequence can resume any more.
  // O(all states).
  void remove_unreached(Removed& removed);

 private:
  StateIndex::IsReached is_reached() const;
  // Number of pages to evict before a total charge of `bytes` fits into the budget.
  size_t excess_pages(size_t bytes) const;

  const size_t budget_bytes_;
  const size_t page_charge_bytes_;
  const StoreSpaces& spaces_;
  StateIndex& states_;
  PrefixTree& tree_;
};

}  // namespace ibid
