// RetainedReference: lower bound of what a store that never ran out of memory must still have, by the rules of its
// header: the inserted tokens, and every resume point of the inserted entries. Searches its own lists linearly.
// LruKvCacheStore must find prefixes that are at least as long.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/token_prefix.h"
#include "cache/store/lru_kv_cache_store.h"
#include "cache/store/state_index.h"

namespace ibid {

class RetainedReference {
 public:
  void insert(const std::string& name_space, const KvCacheEntry& entry, const InsertOptions& options) {
    const bool is_shared = options.sharing == Sharing::kShared;
    size_t n = entry.length();
    // A last page that a longer private sequence holds is not shared with it.
    if (is_shared || options.extent == Extent::kFullPages) n = n / kPagePositions * kPagePositions;
    Space& space = is_shared ? shared_ : own_[name_space];
    const TokenSpan ids = entry.tokens();
    space.sequences.emplace_back(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(n));
    for (const StateSnapshot& kept : entry.state().kept()) add_place(space, ids, kept, n);
    if (options.extent == Extent::kAll) add_place(space, ids, entry.state().now(entry.length()), n);
  }
  void clear(const std::string& name_space) { own_.erase(name_space); }
  // Shared entries may have replaced private ones.
  void clear_shared() { shared_ = Space(), own_.clear(); }

  size_t must_find(const std::string& name_space, TokenSpan ids, bool has_states) {
    const std::vector<const Space*> spaces = {&own_[name_space], &shared_};
    size_t known = 0, reach = 0;
    for (const Space* space : spaces) {
      for (const Tokens& sequence : space->sequences) known = std::max(known, common_prefix_length(sequence, ids));
    }
    if (!has_states) return known;
    for (const Space* space : spaces) {
      for (const auto& [base, tails] : space->places) {
        if (base.size() > known || common_prefix_length(base, ids) < base.size()) continue;
        reach = std::max(reach, base.size());
        if (tails.size() > StateIndex::kMaxTails) continue;  // the store has replaced one of them
        const TokenSpan behind = ids.first(known).subspan(base.size());
        for (const Tokens& tail : tails) reach = std::max(reach, base.size() + common_prefix_length(tail, behind));
      }
    }
    return reach;
  }

 private:
  struct Space {
    std::vector<Tokens> sequences;
    std::map<Tokens, std::set<Tokens>> places;  // tokens before a state, and those of the logged rows after it
  };

  static void add_place(Space& space, TokenSpan ids, const StateSnapshot& place, size_t n) {
    if (place.end() > n) return;
    const auto at = [&](size_t position) { return ids.begin() + static_cast<ptrdiff_t>(position); };
    std::set<Tokens>& tails = space.places[Tokens(ids.begin(), at(place.position))];
    if (tails.size() > StateIndex::kMaxTails) return;
    const Tokens tail(at(place.position), at(place.end()));
    const auto begins = [](const Tokens& a, const Tokens& b) { return common_prefix_length(a, b) == a.size(); };
    if (std::any_of(tails.begin(), tails.end(), [&](const Tokens& known) { return begins(tail, known); })) return;
    std::erase_if(tails, [&](const Tokens& known) { return begins(known, tail); });
    tails.insert(tail);
  }

  std::map<std::string, Space> own_;
  Space shared_;
};

}  // namespace ibid
