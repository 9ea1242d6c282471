// StoreRoom: the budget of LruKvCacheStore, and how room is made in it: for pages by evicting others, and where these
// do not suffice by forgetting logits; for logits by forgetting older ones, and evicting pages. Room is made whole or
// not at all. With a page go the recurrent states that nobody can go on from without it. Not thread-safe: the store
// locks.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "cache/store/prefix_tree.h"
#include "cache/store/state_index.h"
#include "cache/store/store_insertion.h"

namespace ibid {

class StoreRoom {
 public:
  // The others must outlive it.
  StoreRoom(size_t budget_bytes, size_t page_charge_bytes, const StoreSpaces& spaces, StateIndex& states,
            PrefixTree& tree)
      : budget_bytes_(budget_bytes),
        page_charge_bytes_(page_charge_bytes),
        spaces_(spaces),
        states_(states),
        tree_(tree) {}

  size_t budget_bytes() const { return budget_bytes_; }
  size_t page_charge_bytes() const { return page_charge_bytes_; }
  // Of pages and logits. Recurrent states have a limit of their own.
  size_t charge_bytes() const { return spaces_.total().bytes - states_.bytes(); }
  // What logits may take in all.
  size_t endings_budget_bytes() const { return budget_bytes_ / 16; }

  // What a call takes out of the store.
  struct Removed {
    explicit Removed(size_t& n_total) : nodes(n_total), states(n_total) {}
    RemovedNodes nodes;
    StateIndex::Removed states;
  };

  // Error: kOutOfMemory, and nothing has changed.
  Status make_for(const StoreInsertion& insertion, Removed& removed);
  Status make_for(const PrefixEnding& ending, PrefixNode& node, Removed& removed);
  // Removes the page that goes first, and returns it. O(its sequence) where there are states. REQUIRES:
  // tree.count_evictable(1) == 1.
  const PrefixNode& evict_first(Removed& removed) noexcept;
  // Removes the states that nobody can go on from, after pages were removed otherwise. O(all states).
  void remove_unreached(Removed& removed);

 private:
  StateIndex::IsReached is_reached() const;
  // How many pages less `bytes` would have to be.
  size_t excess_pages(size_t bytes) const;

  const size_t budget_bytes_;
  const size_t page_charge_bytes_;
  const StoreSpaces& spaces_;
  StateIndex& states_;
  PrefixTree& tree_;
};

}  // namespace ibid
