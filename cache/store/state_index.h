// StateIndex: the recurrent states of LruKvCacheStore, by their tokens. A sequence with recurrent layers can resume
// only where a state is kept.
//
// A kept state belongs to the tokens before it. It may have tails: tokens that were read after it in one pass, with
// what their rows added, so that the state after any of them can be recomputed (cache/pages/sequence_state.h). States
// are sorted by namespace and tokens, and each has a pointer to the longest other state whose tokens are a prefix of
// its own. So one binary search and a walk along these pointers find all states of a sequence: O(tokens x log states).
// Tokens are compared, not hashes.
//
// Evicts the state that is cheapest to recompute per byte; the cost is the number of tokens after the state before it.
// A use restores the full priority (GreedyDual-Size: Cao & Irani 1997). States have a budget of their own. Not
// thread-safe: the store locks. Removed states are handed to the caller, because zeroing them takes long.
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

// Last position that one of the states reaches; 0 if empty.
size_t deepest(std::span<const StateSnapshot> states);

class StateIndex {
 public:
  static constexpr size_t kMaxTails = 4;  // per state; the least recently used one is replaced

  struct Tail {
    Tokens ids;
    std::shared_ptr<const StateRows> rows;
  };
  struct Kept {
    SpaceId space = kSharedSpace;
    Tokens ids;               // before the state
    KvPage state;             // empty at position 0
    std::vector<Tail> tails;  // in LRU order, oldest first
    Kept* before = nullptr;   // longest other state whose tokens are a prefix of these
    double priority = 0;
    uint64_t serial = 0;  // among equal priorities the lowest is evicted first

    // Number of tokens to prefill again without this state.
    size_t cost() const { return ids.size() - (before == nullptr ? 0 : before->ids.size()); }
  };

  class Removed;

  // state_bytes: charge of a state; 0 if the model has no recurrent layers, and all calls do nothing. spaces must
  // outlive it.
  StateIndex(StoreSpaces& spaces, size_t state_bytes, size_t budget_bytes)
      : spaces_(spaces), state_bytes_(state_bytes), budget_bytes_(budget_bytes) {}

  bool used() const { return state_bytes_ > 0; }

  size_t size() const { return kept_.size(); }
  size_t bytes() const { return bytes_; }

  // Returns all positions of a namespace from which a sequence with these tokens can resume, the deepest last;
  // find_all() appends those of the shared namespace. May throw std::bad_alloc.
  std::vector<StateSnapshot> find(SpaceId space, TokenSpan ids) const;
  std::vector<StateSnapshot> find_all(SpaceId space, TokenSpan ids) const;
  // Marks the state that reaches the n-th token as used, in the namespace and in the shared one.
  void touch_all(SpaceId space, TokenSpan ids, size_t n);

  // Adds a state of the sequence with these tokens, or the new part of its tail if the state is known. Evicts others to
  // stay within the budget. May throw std::bad_alloc; the index is then consistent.
  // REQUIRES: the namespace exists; snapshot.end() <= ids.size().
  void insert(SpaceId space, TokenSpan ids, const StateSnapshot& snapshot, Removed& removed);
  // Adds the snapshots of an entry within its first n_known positions and, if is_whole, its current state. Skips states
  // for which there is no heap memory. REQUIRES: the namespace exists.
  void insert_all(SpaceId space, const KvCacheEntry& entry, size_t n_known, bool is_whole, Removed& removed) noexcept;

  // Removes the state that is evicted first, among those that only the index holds. Returns false if all are held.
  bool evict(Removed& removed);
  void remove_space(SpaceId space, Removed& removed);
  // Call after the pages of the last n_last tokens were evicted. Removes the states that end within them, which cannot
  // be resumed any more, unless other pages hold the same tokens: is_reached(space, ids) returns true if all tokens are
  // stored. For kSharedSpace it also removes states of the other namespaces, which read shared pages.
  using IsReached = std::function<bool(SpaceId space, TokenSpan ids)>;
  void remove_unreached(SpaceId space, TokenSpan ids, size_t n_last, const IsReached& is_reached, Removed& removed);
  void remove_all_unreached(const IsReached& is_reached, Removed& removed);

  // Number of states visited to find those to evict, since construction.
  size_t n_looked_at() const { return n_looked_at_; }

  // Charge of a state and its tails.
  size_t charge(const Kept& kept) const;
  // All states, in the order of the index; for the store's snapshot.
  std::vector<const Kept*> all() const;

 private:
  struct Key {
    SpaceId space = kSharedSpace;
    TokenSpan ids;
  };
  struct Less {
    bool operator()(const Key& a, const Key& b) const;
  };
  struct GoesBefore {
    bool operator()(const Kept* a, const Kept* b) const {
      return a->priority != b->priority ? a->priority < b->priority : a->serial < b->serial;
    }
  };
  using Map = std::map<Key, std::unique_ptr<Kept>, Less>;  // the tokens of a key are those of its value

  friend class Removed;

  // Returns the state with the most tokens that is a prefix of `ids`, or null.
  Kept* longest(SpaceId space, TokenSpan ids) const;
  void use(Kept& kept);
  void set_priority(Kept& kept, double priority);
  Kept& add(SpaceId space, TokenSpan ids, const KvPage& state, Kept* before);
  void touch(SpaceId space, TokenSpan ids, size_t n);
  void add_tail(Kept& kept, TokenSpan ids, std::shared_ptr<const StateRows> rows);
  void remove(Map::iterator at, Removed& removed);
  void give_up(Map::iterator at, Removed& removed);
  template <typename Condition>
  Map::iterator first_to_go(Condition&& condition);

  StoreSpaces& spaces_;
  const size_t state_bytes_;
  const size_t budget_bytes_;
  Map kept_;
  std::set<Kept*, GoesBefore> order_;  // all states, in eviction order
  uint64_t n_added_ = 0;
  size_t n_looked_at_ = 0;
  size_t bytes_ = 0;
  double floor_ = 0;  // priority of the last evicted state
};

// States that a call removed, freed on destruction. Adding one also increments n_total.
class StateIndex::Removed {
 public:
  Removed() = default;
  explicit Removed(size_t& n_total) : n_total_(&n_total) {}
  size_t size() const { return kept_.size(); }
  void clear() { kept_.clear(); }

 private:
  friend class StateIndex;
  size_t* n_total_ = nullptr;
  std::multimap<Key, std::unique_ptr<Kept>, Less> kept_;
};

}  // namespace ibid
