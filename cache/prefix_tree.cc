#include "cache/prefix_tree.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "cache/token_prefix.h"

namespace ibid {

PrefixTree::PrefixTree() { root_.n_ids = kPagePositions; }

// A binary search that remembers how much of `ids` the two borders share: what lies between shares at least
// the smaller of both, so those ids are not compared again (Manber and Myers 1993, for suffix arrays). The
// namespace counts as an id before the first.
PrefixTree::Place PrefixTree::find_place(const PrefixNode& parent, SpaceId space, TokenSpan ids) {
  Place place;
  size_t low = 0, high = parent.children.size();
  size_t low_shared = 0, high_shared = 0;  // 0: another namespace; else 1 + common ids
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
      child_is_less = length < ids.size() && (length == child->n_ids || child->ids[length] < ids[length]);
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
  return place;
}

PrefixTree::Match PrefixTree::best_child(const PrefixNode& parent, SpaceId space, TokenSpan ids) {
  return find_place(parent, space, ids).best;
}

// Follows `space` down from `from`, whose path holds the first `begin` ids.
void PrefixTree::walk_space(PrefixNode& from, SpaceId space, TokenSpan ids, size_t begin, Match& best) {
  PrefixNode* node = &from;
  while (begin < ids.size()) {
    const Match match =
        best_child(*node, space, ids.subspan(begin, std::min(kPagePositions, ids.size() - begin)));
    if (begin + match.length > best.length) best = {match.node, begin + match.length};
    if (match.length < kPagePositions) return;
    begin += kPagePositions;
    node = match.node;
  }
}

PrefixTree::Match PrefixTree::longest_prefix(SpaceId space, TokenSpan ids) {
  // A private path can leave the shared one at any of its nodes.
  Match best;
  PrefixNode* node = &root_;
  for (size_t begin = 0; begin < ids.size(); begin += kPagePositions) {
    if (space != kSharedSpace) walk_space(*node, space, ids, begin, best);
    const Match match =
        best_child(*node, kSharedSpace, ids.subspan(begin, std::min(kPagePositions, ids.size() - begin)));
    if (begin + match.length > best.length) best = {match.node, begin + match.length};
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
        (place.best.length < node.n_ids && place.best.length < place.best.node->n_ids))
      << "siblings must not be prefixes of each other";
  if (parent.children.empty()) leaves_.erase(&parent);
  parent.children.insert(parent.children.begin() + static_cast<ptrdiff_t>(place.index), &node);
}

void PrefixTree::unlink(PrefixNode& node) {
  PrefixNode& parent = *node.parent;
  const size_t index = find_place(parent, node.space, node.tokens()).index;
  CHECK(index < parent.children.size() && parent.children[index] == &node);
  parent.children.erase(parent.children.begin() + static_cast<ptrdiff_t>(index));
}

PrefixNode& PrefixTree::add(PrefixNode& parent, SpaceId space, TokenSpan ids, KvPage page) {
  CHECK(parent.is_full() && !ids.empty() && ids.size() <= kPagePositions);
  CHECK(&parent == &root_ || parent.space == kSharedSpace || parent.space == space);
  std::unique_ptr<PrefixNode>& slot = nodes_[page.data()];
  CHECK(slot == nullptr) << "a page is in one node";
  slot = std::make_unique<PrefixNode>();
  PrefixNode& node = *slot;
  node.serial = ++last_serial_;
  node.parent = &parent;
  node.space = space;
  node.n_ids = ids.size();
  std::copy(ids.begin(), ids.end(), node.ids.begin());
  node.page = std::move(page);
  node.last_used = ++tick_;
  link(node);
  leaves_.insert(&node);
  return node;
}

void PrefixTree::extend(PrefixNode& node, TokenSpan ids, KvPage page) {
  CHECK(node.children.empty() && ids.size() > node.n_ids && ids.size() <= kPagePositions);
  if (!(page == node.page)) {
    auto owned = nodes_.extract(node.page.data());
    owned.key() = page.data();
    CHECK(nodes_.insert(std::move(owned)).inserted) << "a page is in one node";
    node.page = std::move(page);
  }
  // No sibling stands between the old ids and the new: it would begin with the old ones.
  std::copy(ids.begin(), ids.end(), node.ids.begin());
  node.n_ids = ids.size();
  touch(node);
}

void PrefixTree::share(PrefixNode& node) {
  if (node.space == kSharedSpace) return;
  CHECK(node.parent == &root_ || node.parent->space == kSharedSpace);
  unlink(node);
  node.space = kSharedSpace;
  const Match match = best_child(*node.parent, kSharedSpace, node.tokens());
  if (match.node != nullptr && match.length == match.node->n_ids) {
    PrefixNode& gone = *match.node;
    CHECK(gone.children.empty());
    for (auto& [pin, pinned] : pins_) {
      if (pinned == &gone) pinned = &node;
    }
    node.n_pins += std::exchange(gone.n_pins, 0);
    leaves_.erase(&gone);
    unlink(gone);
    const std::byte* key = gone.page.data();
    nodes_.erase(key);
  }
  link(node);
}

void PrefixTree::remove(PrefixNode& node) {
  CHECK(node.children.empty());
  PrefixNode& parent = *node.parent;
  leaves_.erase(&node);
  unlink(node);
  if (&parent != &root_ && parent.children.empty()) {
    parent.last_used = std::max(parent.last_used, node.last_used);
    leaves_.insert(&parent);
  }
  if (node.n_pins > 0) std::erase_if(pins_, [&](const auto& pin) { return pin.second == &node; });
  const std::byte* key = node.page.data();
  nodes_.erase(key);
}

uint64_t PrefixTree::pin(PrefixNode& node) {
  ++node.n_pins;
  pins_.emplace(++last_pin_, &node);
  return last_pin_;
}

void PrefixTree::unpin(uint64_t pin) {
  const auto found = pins_.find(pin);
  if (found == pins_.end()) return;
  --found->second->n_pins;
  pins_.erase(found);
}

void PrefixTree::touch(PrefixNode& node) {
  const bool is_leaf = node.children.empty() && leaves_.erase(&node) > 0;
  node.last_used = ++tick_;
  if (is_leaf) leaves_.insert(&node);
}

bool PrefixTree::can_evict(size_t n) {
  if (n == 0) return true;
  ++scan_;
  size_t found = 0;
  for (PrefixNode* leaf : leaves_) {
    for (PrefixNode* node = leaf; node != &root_ && node->is_idle(); node = node->parent) {
      if (++found == n) return true;
      PrefixNode& parent = *node->parent;
      if (parent.scan != scan_) {
        parent.scan = scan_;
        parent.scanned_children = 0;
      }
      if (++parent.scanned_children < parent.children.size()) break;
    }
  }
  return false;
}

PrefixNode& PrefixTree::oldest_idle_leaf() {
  for (size_t looked_at = 0, n = leaves_.size(); looked_at < n; ++looked_at) {
    PrefixNode* leaf = *leaves_.begin();
    if (leaf->is_idle()) return *leaf;
    touch(*leaf);
  }
  CHECK(false) << "no idle leaf";
  return root_;
}

std::vector<PrefixNode*> PrefixTree::nodes() const {
  std::vector<PrefixNode*> all;
  all.reserve(nodes_.size());
  for (const auto& [page, node] : nodes_) all.push_back(node.get());
  return all;
}

}  // namespace ibid
