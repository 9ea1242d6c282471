#include "cache/store/prefix_tree.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/growth.h"
#include "base/token_prefix.h"

namespace ibid {

PrefixTree::PrefixTree(StoreSpaces& spaces, Eviction eviction, KvPagePool& pool)
    : spaces_(spaces), queue_(eviction), holds_(queue_, pool), logits_(spaces) {
  root_.n_tokens = kPagePositions;
}

PrefixTree::~PrefixTree() {
  if (observer_ != nullptr) observer_->store_ends();
}

// A binary search that remembers how many tokens the nodes at the lower and the upper bound have in common with `ids`.
// All nodes between the bounds have at least the smaller number of tokens in common, so these tokens are not compared
// again (Manber and Myers 1993, for suffix arrays). The namespace is compared as if it were a token before the first.
PrefixTree::Place PrefixTree::find_place(const PrefixNode& parent, SpaceId space, TokenSpan ids) {
  Place place;
  size_t low = 0, high = parent.children.size();
  // 0: the node at the bound is of another namespace; else 1 + the number of tokens that it has in common with `ids`.
  size_t low_shared = 0, high_shared = 0;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    PrefixNode* child = parent.children[middle];
    ++work_.pages_touched;
    bool child_is_less = child->space < space;
    size_t shared = 0;
    if (child->space == space) {
      const size_t known = std::max<size_t>(std::min(low_shared, high_shared), 1) - 1;
      const size_t length = known + common_prefix_length(child->tokens().subspan(known), ids.subspan(known));
      work_.tokens_compared += length - known + 1;
      shared = 1 + length;
      child_is_less = length < ids.size() && (length == child->n_tokens || child->ids[length] < ids[length]);
      if (length > place.best.length) place.best = {child, length};
    }
    if (child_is_less) {
      low = middle + 1;
      low_shared = shared;
    } else {
      high = middle;
      high_shared = shared;
    }
  }
  place.index = low;
  // If all tokens were found, several consecutive children may begin with them; return the first of these children.
  if (!ids.empty() && place.best.length == ids.size()) place.best.node = parent.children[low];
  return place;
}

PrefixTree::Match PrefixTree::best_child(const PrefixNode& parent, SpaceId space, TokenSpan ids) {
  return find_place(parent, space, ids).best;
}

// Replaces `best` by `child`, whose page begins at position `begin`, if its path has more tokens in common with `ids`.
// Sets best.cached_logits if the logits after all of `ids` are stored.
void PrefixTree::improve(Match& best, const Match& child, size_t begin, TokenSpan ids) {
  const size_t length = begin + child.length;
  if (length > best.length) best = {child.node, length};
  if (length == ids.size() && child.length > 0 && best.cached_logits == nullptr) {
    best.cached_logits = CachedLogitsIndex::find(*child.node, child.length);
  }
}

// Searches the nodes of `space` below `from`, whose path holds the first `begin` tokens.
void PrefixTree::walk_space(PrefixNode& from, SpaceId space, TokenSpan ids, size_t begin, Match& best) {
  PrefixNode* node = &from;
  while (begin < ids.size()) {
    const Match match = best_child(*node, space, ids.subspan(begin, std::min(kPagePositions, ids.size() - begin)));
    improve(best, match, begin, ids);
    if (match.length < kPagePositions) return;
    begin += kPagePositions;
    node = match.node;
  }
}

PrefixTree::Match PrefixTree::longest_prefix(SpaceId space, TokenSpan ids) {
  // Search the private nodes below every node of the shared path, because a private path can begin at any of them.
  Match best;
  PrefixNode* node = &root_;
  for (size_t begin = 0; begin < ids.size(); begin += kPagePositions) {
    if (space != kSharedSpace) walk_space(*node, space, ids, begin, best);
    const Match match =
        best_child(*node, kSharedSpace, ids.subspan(begin, std::min(kPagePositions, ids.size() - begin)));
    improve(best, match, begin, ids);
    if (match.length < kPagePositions) break;
    node = match.node;
  }
  return best;
}

PrefixNode* PrefixTree::holder(const KvPage& page) {
  ++work_.pages_touched;
  const auto found = nodes_.find(page.data());
  return found == nodes_.end() ? nullptr : found->second.get();
}

void PrefixTree::link(PrefixNode& node) {
  PrefixNode& parent = *node.parent;
  const Place place = find_place(parent, node.space, node.tokens());
  CHECK(place.best.node == nullptr ||
        (place.best.length < node.n_tokens && place.best.length < place.best.node->n_tokens))
      << "siblings must not be prefixes of each other";
  queue_.erase(parent);
  CHECK(parent.children.size() < parent.children.capacity());
  parent.children.insert(parent.children.begin() + static_cast<ptrdiff_t>(place.index), &node);
  // The new node may now be the first sibling that begins with the tokens that it has in common with the next sibling.
  // Logits after these tokens are kept at the first such node, so move them to the new node.
  if (place.index + 1 == parent.children.size()) return;
  PrefixNode& next = *parent.children[place.index + 1];
  if (next.space == node.space) {
    logits_.move(next, node, common_prefix_length(next.tokens(), node.tokens()));
  }
}

// Removes a node from its parent's children. Returns the index that the node had among them.
size_t PrefixTree::unlink(PrefixNode& node) {
  PrefixNode& parent = *node.parent;
  const size_t index = find_place(parent, node.space, node.tokens()).index;
  CHECK(index < parent.children.size() && parent.children[index] == &node);
  parent.children.erase(parent.children.begin() + static_cast<ptrdiff_t>(index));
  return index;
}

PrefixTree::NodeMap PrefixTree::prepare(PrefixNode& parent, std::span<const KvPage> pages) {
  NodeMap prepared;
  prepared.reserve(pages.size());
  for (const KvPage& page : pages) {
    auto node = std::make_unique<PrefixNode>();
    node->children.reserve(1);
    CHECK(prepared.emplace(page.data(), std::move(node)).second) << "a page must be in one node only";
  }
  if (pages.empty()) return prepared;
  const size_t n = nodes_.size() + pages.size();
  const auto n_most = static_cast<size_t>(nodes_.max_load_factor() * static_cast<float>(nodes_.bucket_count()));
  reserve_geometric(nodes_, n, n_most);
  queue_.reserve(n);
  reserve_geometric(parent.children, parent.children.size() + 1);
  return prepared;
}

PrefixNode& PrefixTree::add(PrefixNode& parent, SpaceId space, TokenSpan ids, KvPage page, NodeMap& prepared) {
  CHECK(parent.is_full() && !ids.empty() && ids.size() <= kPagePositions);
  CHECK(&parent == &root_ || parent.space == kSharedSpace || parent.space == space);
  const auto inserted = nodes_.insert(prepared.extract(page.data()));
  CHECK(inserted.inserted) << "a page must be in one node only";
  PrefixNode& node = *inserted.position->second;
  node.serial = ++last_serial_;
  node.parent = &parent;
  node.space = space;
  node.n_tokens = ids.size();
  std::copy(ids.begin(), ids.end(), node.ids.begin());
  node.page = std::move(page);
  spaces_.page_added(space);
  link(node);
  queue_.touch(node);
  queue_.push(node);
  report_stored(node);
  return node;
}

void PrefixTree::report_stored(const PrefixNode& node) const {
  if (observer_ == nullptr || !node.is_full()) return;
  observer_->page_stored({.serial = node.serial,
                          .before = node.parent->serial,
                          .name_space = spaces_.at(node.space).name,
                          .is_shared = node.space == kSharedSpace,
                          .tokens = node.tokens()});
}

void PrefixTree::observe(std::shared_ptr<StoreObserver>& observer) {
  observer_.swap(observer);
  if (observer_ == nullptr) return;
  observer_->list_begins();
  NodeList open;
  for (PrefixNode* child : root_.children) open.push(*child);
  while (!open.empty()) {
    PrefixNode& node = open.pop();
    report_stored(node);
    for (PrefixNode* child : node.children) open.push(*child);
  }
  observer_->list_ends();
}

KvPage PrefixTree::replace_page(PrefixNode& node, KvPage page) {
  auto owned = nodes_.extract(node.page.data());
  owned.key() = page.data();
  CHECK(nodes_.insert(std::move(owned)).inserted) << "a page must be in one node only";
  std::swap(node.page, page);
  holds_.replace_page(page, node);
  return page;
}

KvPage PrefixTree::extend(PrefixNode& node, TokenSpan ids, KvPage page) {
  CHECK(node.children.empty() && ids.size() > node.n_tokens && ids.size() <= kPagePositions);
  if (!(page == node.page)) page = replace_page(node, std::move(page));
  // The order of the siblings does not change, because a sibling between the old and the new tokens would begin with
  // the old tokens, and no child is a prefix of another.
  std::copy(ids.begin(), ids.end(), node.ids.begin());
  node.n_tokens = ids.size();
  touch(node, true);
  report_stored(node);
  return page;
}

void PrefixTree::share(PrefixNode& node, RemovedNodes& removed) {
  if (node.space == kSharedSpace) return;
  CHECK(node.parent == &root_ || node.parent->space == kSharedSpace);
  if (observer_ != nullptr && node.is_full()) observer_->pages_outdated();
  unlink(node);
  logits_.recharge(node, kSharedSpace);
  spaces_.page_removed(std::exchange(node.space, kSharedSpace));
  spaces_.page_added(kSharedSpace);
  const Match match = best_child(*node.parent, kSharedSpace, node.tokens());
  if (match.node != nullptr && match.length == match.node->n_tokens) {
    PrefixNode& gone = *match.node;
    CHECK(gone.children.empty());
    holds_.replace(gone, node);
    EvictionQueue::replace(gone, node);
    logits_.move(gone, node, gone.n_tokens);
    unlink(gone);
    discard(gone, removed);
  }
  link(node);
  // Logits belong to the first sibling that begins with the tokens before them. So if the first such sibling is now
  // another node, move them there.
  for (const std::unique_ptr<CachedLogits>& cached_logits : node.logits.all()) {
    if (cached_logits == nullptr) continue;
    const Match first = best_child(*node.parent, kSharedSpace, node.tokens().first(cached_logits->n_tokens));
    if (first.node != &node) logits_.move(*cached_logits, *first.node);
  }
}

// Frees a leaf that unlink() removed from its parent.
void PrefixTree::discard(PrefixNode& node, RemovedNodes& removed) {
  CHECK(!node.is_live());
  CHECK_EQ(node.holds.n_resume_points(), size_t{0});
  logits_.drop_all(node);
  queue_.erase(node);
  spaces_.page_removed(node.space);
  if (observer_ != nullptr && node.is_full()) observer_->page_removed(node.serial);
  removed.add(std::move(nodes_.extract(node.page.data()).mapped()));
}

void PrefixTree::remove(PrefixNode& node, RemovedNodes& removed) {
  CHECK(node.children.empty());
  PrefixNode& parent = *node.parent;
  const size_t index = unlink(node);
  if (index < parent.children.size() && parent.children[index]->space == node.space) {
    PrefixNode& next = *parent.children[index];
    logits_.move(node, next, common_prefix_length(node.tokens(), next.tokens()));
  }
  holds_.lift(node, &parent == &root_ ? nullptr : &parent);
  if (&parent != &root_ && parent.children.empty()) {
    EvictionQueue::inherit(parent, node);
    queue_.push(parent);
  }
  discard(node, removed);
}

void PrefixTree::remove_space(SpaceId space, RemovedNodes& removed) {
  NodeList doomed;  // nodes to remove: first the roots of the subtrees
  for (const auto& [page, node] : nodes_) {
    const bool is_top = node->parent == &root_ || node->parent->space != space;
    if (node->space == space && is_top) doomed.push(*node);
  }
  // Remove children before their parents: if the first node of the list has children, push one of them in front of it.
  while (!doomed.empty()) {
    const std::vector<PrefixNode*>& children = doomed.first().children;
    if (children.empty()) {
      remove(doomed.pop(), removed);
    } else {
      doomed.push(*children.back());
    }
  }
}

void PrefixTree::declare_prefix(PrefixNode& node, size_t length) {
  if (length > node.holds.prefix_end()) holds_.set_prefix_end(node, length);
  // If a node is declared, all nodes above it are declared already, so the loop ends at the first declared node.
  PrefixNode* above = &node;
  for (; above != &root_ && !above->rank.is_declared(); above = above->parent) queue_.declare(*above);
}

const PrefixNode& PrefixTree::evict_first(RemovedNodes& removed) {
  PrefixNode& leaf = queue_.first_idle();
  queue_.evicted(leaf);
  spaces_.count(leaf.space, &StoreStats::evicted_pages, 1);
  remove(leaf, removed);
  return leaf;
}

Tokens PrefixTree::ids_to(const PrefixNode& node) {
  size_t n = 0;
  for (const PrefixNode* at = &node; at->parent != nullptr; at = at->parent) n += at->n_tokens;
  Tokens ids(n);
  for (const PrefixNode* at = &node; at->parent != nullptr; at = at->parent) {
    n -= at->n_tokens;
    std::copy_n(at->ids.begin(), at->n_tokens, ids.begin() + static_cast<ptrdiff_t>(n));
  }
  return ids;
}

}  // namespace ibid
