#include "cache/store/store_insertion.h"

#include <algorithm>
#include <new>
#include <string>

#include "base/checked.h"

namespace ibid {

namespace {

size_t inserted_length(const KvCacheEntry& entry, Extent extent) {
  return extent == Extent::kFullPages ? entry.length() / kPagePositions * kPagePositions : entry.length();
}

}  // namespace

StoreInsertion::StoreInsertion(PrefixTree& tree, StoreSpaces& spaces, SpaceId space, KvCacheEntry& entry,
                               const InsertOptions& options, std::vector<KvPage>& replaced)
    : tree_(tree),
      spaces_(spaces),
      entry_(entry),
      own_space_(space),
      space_(options.sharing == Sharing::kShared ? kSharedSpace : space),
      retention_(options.retention),
      length_(inserted_length(entry, options.extent)),
      replaced_(replaced) {}

TokenSpan StoreInsertion::page_ids(size_t page) const {
  const size_t begin = page * kPagePositions;
  return entry_.tokens().subspan(begin, std::min(kPagePositions, length_ - begin));
}

size_t StoreInsertion::n_known() const {
  return node_with_last_page_ != nullptr ? length_ : std::min(length_, n_pages_ * kPagePositions);
}

Status StoreInsertion::prepare() {
  find_known_pages();
  find_first_page();
  TRY(check_pages());
  const size_t n_grown = grown_leaf_ != nullptr ? 1 : 0;
  replaced_.reserve(depth_ - own_depth_ + n_grown + (node_with_last_page_ != nullptr ? 1 : 0));
  PrefixNode& first_parent = n_grown > 0 ? *grown_leaf_ : *parent_;
  prepared_ = tree_.prepare(first_parent, entry_.pages().subspan(depth_ + n_grown, n_new()));
  return {};
}

void StoreInsertion::find_known_pages() {
  const size_t n_full = entry_.length() / kPagePositions;
  // Search backwards for the last page of the entry that is in the tree: usually the last page before this turn.
  parent_ = &tree_.root();
  for (depth_ = n_full; depth_ > 0; --depth_) {
    PrefixNode* node = tree_.holder(entry_.pages()[depth_ - 1]);
    const TokenSpan ids = page_ids(depth_ - 1);
    if (node != nullptr && (node->space == kSharedSpace || node->space == space_) &&
        std::equal(ids.begin(), ids.end(), node->tokens().begin(), node->tokens().end())) {
      parent_ = node;
      break;
    }
  }
  own_depth_ = depth_;
  // Continue with stored pages of other entries that have the same tokens; they will replace the entry's own pages.
  for (; depth_ < n_full; ++depth_) {
    const TokenSpan ids = page_ids(depth_);
    PrefixTree::Match match = tree_.best_child(*parent_, kSharedSpace, ids);
    if (match.length < kPagePositions) match = tree_.best_child(*parent_, own_space_, ids);
    if (match.length < kPagePositions) break;
    parent_ = match.node;
    if (match.node->space != space_ && space_ == kSharedSpace) private_path_.push_back(match.node);
  }
}

// Looks for the node that the first page without a node extends (the node's tokens are the beginning of the page's),
// and for a node that begins with all tokens of a partial last page.
void StoreInsertion::find_first_page() {
  n_pages_ = KvLayout::pages_for(length_);
  if (n_unknown() == 0) return;
  const TokenSpan ids = page_ids(depth_);
  const PrefixTree::Match shared = tree_.best_child(*parent_, kSharedSpace, ids);
  const PrefixTree::Match own = tree_.best_child(*parent_, own_space_, ids);
  const auto begins_ids = [](const PrefixTree::Match& match) {
    return match.node != nullptr && match.length == match.node->n_tokens;
  };
  if (shared.length == ids.size() || (space_ == own_space_ && own.length == ids.size())) {
    n_pages_ = depth_;  // no page is added: only a partial page can be covered by another node, so it is the last one
    node_with_last_page_ = shared.length == ids.size() ? shared.node : own.node;
  } else if (begins_ids(own) && (space_ == own_space_ || own.length >= shared.length)) {
    grown_leaf_ = own.node;
  } else if (begins_ids(shared) && space_ == kSharedSpace) {
    grown_leaf_ = shared.node;
  }
}

// Checks that no new page is in the tree yet. Leaves out a partial last page that is in the tree, in a node with more
// tokens.
Status StoreInsertion::check_pages() {
  for (size_t i = depth_; i < n_pages_; ++i) {
    const PrefixNode* node = tree_.holder(entry_.pages()[i]);
    if (node == nullptr || (i == depth_ && node == grown_leaf_)) continue;
    if ((i + 1) * kPagePositions > length_) {
      n_pages_ = i;
      if (i == depth_) grown_leaf_ = nullptr;
      return {};
    }
    return {ErrorCode::kInvalidArgument,
            "KV cache: page " + std::to_string(i) + " of the entry is stored for another namespace or other tokens"};
  }
  return {};
}

void StoreInsertion::share_known_pages() {
  PrefixNode* node = parent_;
  for (size_t i = depth_; i > own_depth_; --i, node = node->parent) share_page(*node, i - 1);
  if (node_with_last_page_ != nullptr && node_with_last_page_->n_tokens == page_ids(depth_).size())
    regain_window(*node_with_last_page_, depth_);
}

// Replaces page `index` of the entry by the node's page, so that pages of the same tokens are stored once.
void StoreInsertion::share_page(PrefixNode& node, size_t index) {
  if (node.page == entry_.pages()[index] || regain_window(node, index)) return;
  KvPage left = entry_.share_page(index, node.page);
  if (left == node.page) {
    (void)regain_window(node, index);  // if this fails, the window part of node.page was evicted meanwhile
  } else {
    replaced_.push_back(std::move(left));
  }
}

// Replaces the node's page by the entry's page if the window part of the node's page was evicted and the entry has
// computed this part again. Otherwise changes nothing and returns false.
bool StoreInsertion::regain_window(PrefixNode& node, size_t index) {
  const KvPagePool& pool = entry_.pool();
  const KvPage& page = entry_.pages()[index];
  if (pool.layout().window() == 0 || pool.has_window(node.page) || !pool.has_window(page)) return false;
  if (tree_.holder(page) != nullptr) return false;
  replaced_.push_back(tree_.replace_page(node, page));
  return true;
}

PrefixNode& StoreInsertion::apply(RemovedNodes& removed) {
  const bool is_known = parent_ != &tree_.root();
  if (node_with_last_page_ != nullptr || is_known) {
    tree_.touch(node_with_last_page_ != nullptr ? *node_with_last_page_ : *parent_, is_known && n_unknown() > 0);
  }
  share_known_pages();
  for (PrefixNode* known : private_path_) tree_.share(*known, removed);
  PrefixNode* node = parent_;
  for (size_t i = depth_; i < n_pages_; ++i) {
    const TokenSpan ids = page_ids(i);
    if (i == depth_ && grown_leaf_ != nullptr) {
      node = grown_leaf_;
      if (ids.size() > node->n_tokens) replaced_.push_back(tree_.extend(*node, ids, entry_.pages()[i]));
      // Share the leaf only after it has grown. share() does not allow another shared page that begins with all tokens
      // of the leaf; such a page may exist before the leaf grows, but no page begins with the leaf's new tokens.
      if (space_ == kSharedSpace) tree_.share(*node, removed);
    } else {
      node = &tree_.add(*node, space_, ids, entry_.pages()[i], prepared_);
    }
    spaces_.count(space_, &StoreStats::inserted_pages, 1);
  }
  if (node_with_last_page_ != nullptr) node = node_with_last_page_;
  if (retention_ == Retention::kPrefix) tree_.declare_prefix(*node, n_known());
  return *node;
}

size_t StoreBudget::excess_pages(size_t bytes) const {
  const size_t excess = saturating_sub(bytes, budget_bytes_);
  return excess / page_charge_bytes_ + (excess % page_charge_bytes_ != 0 ? 1 : 0);
}

Status StoreBudget::make_room_for(const StoreInsertion& insertion, Removed& removed) {
  const size_t new_bytes = insertion.n_new() * page_charge_bytes_;
  const size_t wanted = charge_bytes() + new_bytes;
  if (wanted <= budget_bytes_) return {};
  const PrefixHolds::PinnedNodes pinned = insertion.pin_parents();
  const size_t n_evictable = tree_.count_evictable(excess_pages(wanted));
  if (n_evictable < excess_pages(wanted - tree_.logits().bytes())) {
    return {ErrorCode::kOutOfMemory, "KV cache: " + std::to_string(insertion.n_new()) +
                                         " more pages do not fit into a budget of " + std::to_string(budget_bytes_) +
                                         " bytes, of which " + std::to_string(charge_bytes()) +
                                         " are used and cannot be evicted"};
  }
  while (excess_pages(charge_bytes() + new_bytes) > n_evictable) tree_.logits().drop(*tree_.logits().oldest());
  while (charge_bytes() + new_bytes > budget_bytes_) evict_first(removed);
  return {};
}

Status StoreBudget::make_room_for(const CachedLogits& cached_logits, PrefixNode& node, Removed& removed) {
  CachedLogitsIndex& logits = tree_.logits();
  const size_t bytes = cached_logits.charge_bytes();
  size_t dropped = 0;
  for (const CachedLogits* old = logits.oldest();
       old != nullptr && logits.bytes() - dropped + bytes > logits_budget_bytes(); old = old->younger()) {
    dropped += old->charge_bytes();
  }
  const size_t n_evicted = excess_pages(charge_bytes() - dropped + bytes);
  const PrefixHolds::PinnedNodes pinned(&node, nullptr);
  if (bytes > logits_budget_bytes() || tree_.count_evictable(n_evicted) < n_evicted) {
    return {ErrorCode::kOutOfMemory, "KV cache: logits of " + std::to_string(bytes) +
                                         " bytes do not fit into a budget of " + std::to_string(budget_bytes_) +
                                         " bytes"};
  }
  while (logits.bytes() + bytes > logits_budget_bytes()) logits.drop(*logits.oldest());
  while (charge_bytes() + bytes > budget_bytes_) evict_first(removed);
  return {};
}

StateIndex::IsReached StoreBudget::is_reached() const {
  return [this](SpaceId space, TokenSpan ids) { return tree_.longest_prefix(space, ids).length >= ids.size(); };
}

const PrefixNode& StoreBudget::evict_first(Removed& removed) noexcept {
  const PrefixNode& gone = tree_.evict_first(removed.nodes);
  if (states_.size() == 0) return gone;
  try {
    states_.remove_unreached(gone.space, PrefixTree::ids_to(gone), gone.n_tokens, is_reached(), removed.states);
  } catch (const std::bad_alloc&) {
    // If there is no memory to find the unreachable states, they stay until they are evicted.
  }
  return gone;
}

void StoreBudget::remove_unreached(Removed& removed) { states_.remove_all_unreached(is_reached(), removed.states); }

}  // namespace ibid
