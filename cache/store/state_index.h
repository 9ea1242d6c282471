// StateIndex: the recurrent states that LruKvCacheStore knows, found by their ids. A layer with a state cannot be
// resumed everywhere, only where a state was kept: this says where.
//
// A kept state belongs to the ids in front of it, and may have tails: ids that were read behind it in one pass, with
// what their rows gave, so that the state behind any of them can be computed again (cache/pages/sequence_state.h).
// States are sorted by namespace and ids, and each knows the longest other one whose ids its own begin with. So all
// states on the way of a sequence are found by one binary search and a walk from one to the next: O(ids of the
// sequence x log states). Ids are compared, there is no hash.
//
// When room is short, that state goes first which costs least to compute again, per byte: the ids between it and the
// one before it. What is used again is as good as new (GreedyDual-Size: Cao & Irani 1997). States take no more than
// their budget. Not thread-safe: the store locks. What it removes is handed to the caller, because zeroing it takes
// time.
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

// How far the deepest of them reaches; 0: there is none.
size_t deepest(std::span<const StateSnapshot> states);

class StateIndex {
 public:
  static constexpr size_t kMaxTails = 4;  // of a state; the least recently used gives way

  struct Tail {
    Tokens ids;
    std::shared_ptr<const StateRows> rows;
  };
  struct Kept {
    SpaceId space = kSharedSpace;
    Tokens ids;                   // that the state stands for
    KvPage state;                 // none: of no ids
    std::vector<Tail> tails;      // the least recently used first
    Kept* before = nullptr;       // the longest other one that these ids begin with
    double priority = 0;
    uint64_t serial = 0;          // of those of equal priority the older one goes first

    // How many ids have to be read again without it.
    size_t cost() const { return ids.size() - (before == nullptr ? 0 : before->ids.size()); }
  };

  class Removed;

  // spaces must outlive it. state_bytes: of a state, as it is charged; 0: the model has none, and all of this does
  // nothing.
  StateIndex(StoreSpaces& spaces, size_t state_bytes, size_t budget_bytes)
      : spaces_(spaces), state_bytes_(state_bytes), budget_bytes_(budget_bytes) {}

  bool used() const { return state_bytes_ > 0; }

  size_t size() const { return kept_.size(); }
  size_t bytes() const { return bytes_; }

  // All places of a namespace from which a sequence with these ids can go on, those that lie deepest last. May throw
  // std::bad_alloc. The same with those of the shared namespace.
  std::vector<StateSnapshot> find(SpaceId space, TokenSpan ids) const;
  std::vector<StateSnapshot> find_all(SpaceId space, TokenSpan ids) const;
  // Notes that the one that reaches n of these ids was used, in the namespace and in the shared one.
  void touch_all(SpaceId space, TokenSpan ids, size_t n);

  // Adds a state that the sequence with these ids kept; of one that is known, what is new of its tail. Makes room for
  // it. May throw std::bad_alloc; what is in the index is sound then.
  // REQUIRES: the namespace is there; snapshot.end() <= ids.size().
  void insert(SpaceId space, TokenSpan ids, const StateSnapshot& snapshot, Removed& removed);
  // Adds what an entry kept within its first n_known positions, and if it is whole, the state that it has now. One that
  // cannot be had for want of heap memory is one place less to go on from. REQUIRES: the namespace is there.
  void insert_all(SpaceId space, const KvCacheEntry& entry, size_t n_known, bool is_whole, Removed& removed) noexcept;

  // Removes the one that goes first, of those that nobody else holds. False: there is none. Its page is in `removed`.
  bool evict(Removed& removed);
  void remove_space(SpaceId space, Removed& removed);
  // The rows of the last n_last of these ids were evicted. Removes the states whose ids end within them, unless other
  // pages have their rows: nobody can go on from them. is_reached(space, ids) says whether all rows are there. For
  // kSharedSpace also those of the other namespaces, which read shared rows.
  using IsReached = std::function<bool(SpaceId space, TokenSpan ids)>;
  void remove_unreached(SpaceId space, TokenSpan ids, size_t n_last, const IsReached& is_reached, Removed& removed);
  void remove_all_unreached(const IsReached& is_reached, Removed& removed);

  // How many states were looked at to find those that go first, since construction.
  size_t n_looked_at() const { return n_looked_at_; }

  // What it is charged: the state and its tails, which are the index's alone.
  size_t charge(const Kept& kept) const;
  // In the order of the index. For the store's snapshot.
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
  using Map = std::map<Key, std::unique_ptr<Kept>, Less>;  // a key's ids are those of the value

  friend class Removed;

  // The longest one that the ids begin with, of at most n ids; null: none.
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
  std::set<Kept*, GoesBefore> order_;  // all, those that go first in front
  uint64_t n_added_ = 0;
  size_t n_looked_at_ = 0;
  size_t bytes_ = 0;
  double floor_ = 0;  // the priority of what went last
};

// What a call removed. It is gone when this is. Each one that is added is counted in n_total as well.
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
