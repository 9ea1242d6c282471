#include "cache/store/store_room.h"

#include <new>
#include <string>

#include "base/checked.h"

namespace ibid {

size_t StoreRoom::excess_pages(size_t bytes) const {
  const size_t excess = saturating_sub(bytes, budget_bytes_);
  return excess / page_charge_bytes_ + (excess % page_charge_bytes_ != 0 ? 1 : 0);
}

Status StoreRoom::make_for(const StoreInsertion& insertion, Removed& removed) {
  const size_t new_bytes = insertion.n_new() * page_charge_bytes_;
  const size_t wanted = charge_bytes() + new_bytes;
  if (wanted <= budget_bytes_) return {};
  const PrefixHolds::Kept kept = insertion.keep();
  const size_t n_evictable = tree_.count_evictable(excess_pages(wanted));
  if (n_evictable < excess_pages(wanted - tree_.endings().bytes())) {
    return {ErrorCode::kOutOfMemory,
            "KV cache: " + std::to_string(insertion.n_new()) + " pages more do not fit into a budget of " +
                std::to_string(budget_bytes_) + " bytes, of which " + std::to_string(charge_bytes()) +
                " are used and cannot be evicted"};
  }
  while (excess_pages(charge_bytes() + new_bytes) > n_evictable) tree_.endings().drop(*tree_.endings().oldest());
  while (charge_bytes() + new_bytes > budget_bytes_) evict_first(removed);
  return {};
}

Status StoreRoom::make_for(const PrefixEnding& ending, PrefixNode& node, Removed& removed) {
  PrefixEndings& endings = tree_.endings();
  const size_t bytes = ending.charge_bytes();
  size_t dropped = 0;
  for (const PrefixEnding* old = endings.oldest();
       old != nullptr && endings.bytes() - dropped + bytes > endings_budget_bytes(); old = old->younger()) {
    dropped += old->charge_bytes();
  }
  const size_t n_evicted = excess_pages(charge_bytes() - dropped + bytes);
  const PrefixHolds::Kept kept(&node, nullptr);
  if (bytes > endings_budget_bytes() || tree_.count_evictable(n_evicted) < n_evicted) {
    return {ErrorCode::kOutOfMemory, "KV cache: logits of " + std::to_string(bytes) +
                                         " bytes do not fit into a budget of " + std::to_string(budget_bytes_) +
                                         " bytes"};
  }
  while (endings.bytes() + bytes > endings_budget_bytes()) endings.drop(*endings.oldest());
  while (charge_bytes() + bytes > budget_bytes_) evict_first(removed);
  return {};
}

StateIndex::IsReached StoreRoom::is_reached() const {
  return [this](SpaceId space, TokenSpan ids) { return tree_.longest_prefix(space, ids).length >= ids.size(); };
}

const PrefixNode& StoreRoom::evict_first(Removed& removed) noexcept {
  const PrefixNode& gone = tree_.evict_first(removed.nodes);
  if (states_.size() == 0) return gone;
  try {
    states_.remove_unreached(gone.space, PrefixTree::ids_to(gone), gone.n_ids, is_reached(), removed.states);
  } catch (const std::bad_alloc&) {
    // They stay until they are the ones that go first.
  }
  return gone;
}

void StoreRoom::remove_unreached(Removed& removed) { states_.remove_all_unreached(is_reached(), removed.states); }

}  // namespace ibid
