#include "cache/store/state_index.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/token_prefix.h"

namespace ibid {

size_t last_reachable(std::span<const StateSnapshot> states) {
  size_t end = 0;
  for (const StateSnapshot& state : states) end = std::max(end, state.end());
  return end;
}

bool StateIndex::Less::operator()(const Key& a, const Key& b) const {
  if (a.space != b.space) return a.space < b.space;
  return std::lexicographical_compare(a.ids.begin(), a.ids.end(), b.ids.begin(), b.ids.end());
}

size_t StateIndex::charge(const KeptState& kept) const {
  size_t bytes = sizeof(KeptState) + kept.ids.size() * sizeof(TokenId) + (kept.state ? state_bytes_ : 0);
  for (const Tail& tail : kept.tails) bytes += tail.rows->bytes() + tail.ids.size() * sizeof(TokenId);
  return bytes;
}

// The last state before the insertion point of `ids` has the most tokens in common with `ids`. So the chain of `before`
// pointers that begins with that state contains all states whose tokens are prefixes of `ids`.
StateIndex::KeptState* StateIndex::longest(SpaceId space, TokenSpan ids) const {
  auto next = kept_.upper_bound(Key{space, ids});
  if (next == kept_.begin()) return nullptr;
  KeptState* kept = std::prev(next)->second.get();
  if (kept->space != space) return nullptr;
  const size_t n_same = common_prefix_length(kept->ids, ids);
  while (kept != nullptr && kept->ids.size() > n_same) kept = kept->longest_prefix;
  return kept;
}

std::vector<StateSnapshot> StateIndex::find(SpaceId space, TokenSpan ids) const {
  std::vector<StateSnapshot> found;
  for (const KeptState* kept = longest(space, ids); kept != nullptr; kept = kept->longest_prefix) {
    const size_t n = kept->ids.size();
    StateSnapshot snapshot{n, kept->state, nullptr, 0};
    for (const Tail& tail : kept->tails) {
      const size_t n_same = common_prefix_length(tail.ids, ids.subspan(n));
      if (n_same <= snapshot.n_rows) continue;
      snapshot.rows = tail.rows;
      snapshot.n_rows = n_same;
    }
    if (n > 0 || snapshot.n_rows > 0) found.push_back(std::move(snapshot));
  }
  std::reverse(found.begin(), found.end());
  return found;
}

std::vector<StateSnapshot> StateIndex::find_all(SpaceId space, TokenSpan ids) const {
  if (!used()) return {};
  std::vector<StateSnapshot> found = find(space, ids);
  if (space == kSharedSpace) return found;
  std::vector<StateSnapshot> shared = find(kSharedSpace, ids);
  found.insert(found.end(), std::make_move_iterator(shared.begin()), std::make_move_iterator(shared.end()));
  return found;
}

void StateIndex::touch_all(SpaceId space, TokenSpan ids, size_t n) {
  if (!used()) return;
  touch(space, ids, n);
  if (space != kSharedSpace) touch(kSharedSpace, ids, n);
}

void StateIndex::insert_all(SpaceId space, const KvCacheEntry& entry, size_t n_known, bool is_whole,
                            Removed& removed) noexcept {
  if (!used()) return;
  try {
    for (const StateSnapshot& kept : entry.state().kept()) {
      if (kept.end() <= n_known) insert(space, entry.tokens(), kept, removed);
    }
    const StateSnapshot now = entry.state().now(entry.length());
    if (is_whole && now.end() <= n_known) insert(space, entry.tokens(), now, removed);
  } catch (const std::bad_alloc&) {
  }
}

void StateIndex::use(KeptState& kept) {
  set_priority(kept, floor_ + static_cast<double>(kept.cost() + 1) / static_cast<double>(charge(kept)));
}

void StateIndex::set_priority(KeptState& kept, double priority) {
  auto place = order_.extract(&kept);
  kept.priority = priority;
  order_.insert(std::move(place));
}

void StateIndex::touch(SpaceId space, TokenSpan ids, size_t n) {
  for (KeptState* kept = longest(space, ids.first(n)); kept != nullptr; kept = kept->longest_prefix) {
    size_t reach = kept->ids.size();
    for (size_t i = 0; i < kept->tails.size(); ++i) {
      const size_t n_same = common_prefix_length(kept->tails[i].ids, ids.subspan(kept->ids.size()));
      if (kept->ids.size() + n_same < n) continue;
      reach = n;
      std::rotate(kept->tails.begin() + static_cast<ptrdiff_t>(i), kept->tails.begin() + static_cast<ptrdiff_t>(i) + 1,
                  kept->tails.end());
      break;
    }
    if (reach >= n) return use(*kept);
  }
}

void StateIndex::add_tail(KeptState& kept, TokenSpan ids, std::shared_ptr<const StateRows> rows) {
  if (ids.empty()) return;
  for (const Tail& tail : kept.tails) {
    if (common_prefix_length(tail.ids, ids) == ids.size()) return;  // a tail of the state has these rows already
  }
  kept.tails.reserve(kept.tails.size() + 1);
  Tail added{Tokens(ids.begin(), ids.end()), std::move(rows)};
  // Nothing below this line can fail. Drop the tails whose tokens are a prefix of the new tail's.
  const size_t bytes_before = charge(kept);
  std::erase_if(kept.tails, [&](const Tail& tail) { return common_prefix_length(tail.ids, ids) == tail.ids.size(); });
  if (kept.tails.size() == kMaxTails) kept.tails.erase(kept.tails.begin());
  kept.tails.push_back(std::move(added));
  const size_t after = charge(kept);
  spaces_.bytes_added(kept.space, after);
  spaces_.bytes_removed(kept.space, bytes_before);
  bytes_ += after - bytes_before;
}

// Adds a new state. If it throws std::bad_alloc, nothing has changed.
StateIndex::KeptState& StateIndex::add(SpaceId space, TokenSpan ids, const KvPage& state, KeptState* longest_prefix) {
  auto fresh = std::make_unique<KeptState>();
  KeptState& kept = *fresh;
  kept.space = space;
  kept.ids.assign(ids.begin(), ids.end());
  kept.state = state;
  kept.longest_prefix = longest_prefix;
  kept.serial = ++n_added_;
  Map map;
  map.emplace(Key{space, kept.ids}, std::move(fresh));
  order_.insert(&kept);
  // Nothing below this line can fail.
  auto at = kept_.insert(map.extract(map.begin())).position;
  spaces_.bytes_added(space, charge(kept));
  bytes_ += charge(kept);
  // The states whose tokens begin with `ids` directly follow the new state, which may now be their longest prefix.
  for (++at; at != kept_.end() && at->second->space == space; ++at) {
    KeptState& next = *at->second;
    if (common_prefix_length(next.ids, ids) < ids.size()) break;
    if (next.longest_prefix == longest_prefix) next.longest_prefix = &kept;
  }
  return kept;
}

void StateIndex::insert(SpaceId space, TokenSpan ids, const StateSnapshot& snapshot, Removed& removed) {
  const TokenSpan own = ids.first(snapshot.position);
  const TokenSpan tail = ids.subspan(snapshot.position, snapshot.n_rows);
  KeptState* longest_prefix = longest(space, own);
  KeptState* kept = longest_prefix != nullptr && longest_prefix->ids.size() == own.size() ? longest_prefix : nullptr;
  if (kept == nullptr) kept = &add(space, own, snapshot.state, longest_prefix);
  add_tail(*kept, tail, snapshot.rows);
  use(*kept);
  while (bytes_ > budget_bytes_ && kept_.size() > 1) {
    evict_at(find_evictable([kept](const KeptState& other) { return &other != kept; }), removed);
  }
}

// Returns the first state, in eviction order, that satisfies the condition. O(states before it).
template <typename Condition>
StateIndex::Map::iterator StateIndex::find_evictable(Condition&& condition) {
  for (const KeptState* kept : order_) {
    ++n_visited_;
    if (condition(*kept)) return kept_.find(Key{kept->space, kept->ids});
  }
  return kept_.end();
}

// Evicts a state. States that are used later get a higher priority than the evicted state had.
void StateIndex::evict_at(Map::iterator at, Removed& removed) {
  floor_ = std::max(floor_, at->second->priority);
  remove(at, removed);
}

void StateIndex::remove(Map::iterator at, Removed& removed) {
  KeptState& gone = *at->second;
  // Later states whose longest prefix was the removed state now get the state before it as longest prefix, so
  // recomputing them costs more.
  for (auto next = std::next(at); next != kept_.end() && next->second->space == gone.space; ++next) {
    KeptState& next_state = *next->second;
    if (common_prefix_length(next_state.ids, gone.ids) < gone.ids.size()) break;
    if (next_state.longest_prefix != &gone) continue;
    set_priority(next_state,
                 next_state.priority + static_cast<double>(gone.cost()) / static_cast<double>(charge(next_state)));
    next_state.longest_prefix = gone.longest_prefix;
  }
  order_.erase(&gone);
  bytes_ -= charge(gone);
  spaces_.bytes_removed(gone.space, charge(gone));
  removed.kept_.insert(kept_.extract(at));
  if (removed.n_total_ != nullptr) ++*removed.n_total_;
}

bool StateIndex::evict(Removed& removed) {
  const auto first = find_evictable([](const KeptState& kept) { return !kept.state || kept.state.use_count() == 1; });
  if (first == kept_.end()) return false;
  evict_at(first, removed);
  return true;
}

void StateIndex::remove_unreached(SpaceId space, TokenSpan ids, size_t n_last, const IsReached& is_reached,
                                  Removed& removed) {
  const size_t n_before = ids.size() - n_last;
  const auto remove_of = [&](SpaceId of) {
    for (KeptState* kept = longest(of, ids); kept != nullptr && kept->ids.size() > n_before;) {
      const KeptState& state = *std::exchange(kept, kept->longest_prefix);
      if (!is_reached(of, state.ids)) remove(kept_.find(Key{of, state.ids}), removed);
    }
  };
  if (space != kSharedSpace) return remove_of(space);
  for (auto at = kept_.begin(); at != kept_.end();) {
    const SpaceId of = at->first.space;
    remove_of(of);
    at = kept_.lower_bound(Key{of + 1, {}});
  }
}

void StateIndex::remove_all_unreached(const IsReached& is_reached, Removed& removed) {
  for (auto at = kept_.begin(); at != kept_.end();) {
    const auto state = at++;
    if (!is_reached(state->first.space, state->first.ids)) remove(state, removed);
  }
}

void StateIndex::remove_space(SpaceId space, Removed& removed) {
  for (auto at = kept_.lower_bound(Key{space, {}}); at != kept_.end() && at->second->space == space;) {
    remove(at++, removed);
  }
}

std::vector<const StateIndex::KeptState*> StateIndex::all() const {
  std::vector<const KeptState*> kept;
  kept.reserve(kept_.size());
  for (const auto& [key, value] : kept_) kept.push_back(value.get());
  return kept;
}

}  // namespace ibid
