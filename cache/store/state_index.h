// StateIndex: the recurrent states of LruKvCacheStore, by their tokens. A sequence with recurrent layers can resume
// only at positions whose state is kept or can be recomputed from a kept state.
//
// A kept state is the state after its tokens. A state may have tails: tokens that one pass computed after the state,
// with the rows that these tokens added, so that the state after any of them can be recomputed
// (cache/pages/sequence_state.h). States are sorted by namespace and tokens, and each points to the longest other state
// whose tokens are a prefix of its own. So one binary search and a walk along these pointers find all states of a
// sequence: O(tokens x log states). Compares tokens, not hashes.
//
// Evicts the state that is cheapest to recompute per byte; the cost is the number of tokens since the preceding state.
// Using a state restores its full priority (GreedyDual-Size: Cao & Irani 1997). States have a budget of their own. Not
// thread-safe: called under the store's lock. Removed states are moved to the caller, because zeroing them takes long.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "cache/pages/kv_cache_entry.h"
#include "cache/store/store_spaces.h"
#include "ibid/token.h"

namespace ibid {

// Returns the last position that one of the states reaches; 0 if there are no states.
size_t last_reachable(std::span<const StateSnapshot> states);

class StateIndex {
 public:
  // Maximum number of tails (runs of tokens after the state, with their rows); a new tail replaces the least recently
  // used one.
  static constexpr size_t kMaxTails = 4;

  struct Tail {
    Tokens ids;
    std::shared_ptr<const StateRows> rows;
  };
  struct KeptState {
    SpaceId space = kSharedSpace;
    Tokens ids;                           // all tokens before the state
    KvPage state;                         // page of the state; empty at position 0
    std::vector<Tail> tails;              // tails of the state, least recently used first
    KeptState* longest_prefix = nullptr;  // state whose tokens are the longest proper prefix of `ids`; null: no state
    double priority = 0;
    uint64_t serial = 0;  // order of creation; among states of equal priority the lowest is evicted first

    // Number of tokens to prefill again if this state is evicted.
    size_t cost() const { return ids.size() - (longest_prefix == nullptr ? 0 : longest_prefix->ids.size()); }
  };

  class Removed;

  // state_bytes: charge of one state; 0 if there are no recurrent layers, and then all calls do nothing. `spaces` must
  // outlive the index.
  StateIndex(StoreSpaces& spaces, size_t state_bytes, size_t budget_bytes)
      : spaces_(spaces), state_bytes_(state_bytes), budget_bytes_(budget_bytes) {}

  bool used() const { return state_bytes_ > 0; }

  size_t size() const { return kept_.size(); }
  size_t bytes() const { return bytes_; }

  // find() returns the states of one namespace from which a sequence with these tokens can resume; the state after the
  // most tokens comes last. find_all() also returns those of the shared namespace. May throw std::bad_alloc.
  std::vector<StateSnapshot> find(SpaceId space, TokenSpan ids) const;
  std::vector<StateSnapshot> find_all(SpaceId space, TokenSpan ids) const;
  // Marks the state from which the state after the n-th token is computed as used, in `space` and the shared namespace.
  void touch_all(SpaceId space, TokenSpan ids, size_t n);

  // Adds a state of the sequence with these tokens; if the state is already indexed, adds its new rows as a tail.
  // Evicts other states to stay within the budget. May throw std::bad_alloc; the index is then consistent.
  // REQUIRES: the namespace exists; snapshot.end() <= ids.size().
  void insert(SpaceId space, TokenSpan ids, const StateSnapshot& snapshot, Removed& removed);
  // Adds the snapshots of an entry within its first n_known positions and, if is_whole, the entry's current state.
  // Skips states for which there is no heap memory. REQUIRES: the namespace exists.
  void insert_all(SpaceId space, const KvCacheEntry& entry, size_t n_known, bool is_whole, Removed& removed) noexcept;

  // Evicts the first state, in eviction order, that is held by the index only. Returns false if all states are also
  // held by others.
  bool evict(Removed& removed);
  void remove_space(SpaceId space, Removed& removed);
  // Call after the pages of the last n_last tokens of `ids` were evicted. Removes the states that end within these
  // tokens, because no sequence can resume there any more. Keeps states whose tokens other pages hold too:
  // is_reached(space, ids) returns true if all tokens are stored. For kSharedSpace it also removes states of other
  // namespaces, because their sequences read shared pages.
  using IsReached = std::function<bool(SpaceId space, TokenSpan ids)>;
  void remove_unreached(SpaceId space, TokenSpan ids, size_t n_last, const IsReached& is_reached, Removed& removed);
  void remove_all_unreached(const IsReached& is_reached, Removed& removed);

  // Number of states visited by searches for states to evict, since construction.
  size_t n_visited() const { return n_visited_; }

  // Bytes charged for a state and its tails.
  size_t charge(const KeptState& kept) const;
  // All states, in the order of the index; for the store's snapshot.
  std::vector<const KeptState*> all() const;

 private:
  struct Key {
    SpaceId space = kSharedSpace;
    TokenSpan ids;
  };
  struct Less {
    bool operator()(const Key& a, const Key& b) const;
  };
  struct EvictedBefore {
    bool operator()(const KeptState* a, const KeptState* b) const {
      return a->priority != b->priority ? a->priority < b->priority : a->serial < b->serial;
    }
  };
  using Map = std::map<Key, std::unique_ptr<KeptState>, Less>;  // the KeptState owns the tokens of its key

  friend class Removed;

  // Returns the state whose tokens are the longest prefix of `ids`; null if the tokens of no state are a prefix.
  KeptState* longest(SpaceId space, TokenSpan ids) const;
  void use(KeptState& kept);
  void set_priority(KeptState& kept, double priority);
  KeptState& add(SpaceId space, TokenSpan ids, const KvPage& state, KeptState* longest_prefix);
  void touch(SpaceId space, TokenSpan ids, size_t n);
  void add_tail(KeptState& kept, TokenSpan ids, std::shared_ptr<const StateRows> rows);
  void remove(Map::iterator at, Removed& removed);
  void evict_at(Map::iterator at, Removed& removed);
  template <typename Condition>
  Map::iterator find_evictable(Condition&& condition);

  StoreSpaces& spaces_;
  const size_t state_bytes_;
  const size_t budget_bytes_;
  Map kept_;
  std::set<KeptState*, EvictedBefore> order_;  // all states, in eviction order
  uint64_t n_added_ = 0;
  size_t n_visited_ = 0;
  size_t bytes_ = 0;
  double floor_ = 0;  // priority of the last evicted state
};

// States that a call removed, freed on destruction. Adding a state also increments n_total.
class StateIndex::Removed {
 public:
  Removed() = default;
  explicit Removed(size_t& n_total) : n_total_(&n_total) {}
  size_t size() const { return kept_.size(); }
  void clear() { kept_.clear(); }

 private:
  friend class StateIndex;
  size_t* n_total_ = nullptr;
  std::multimap<Key, std::unique_ptr<KeptState>, Less> kept_;
};

}  // namespace ibid
