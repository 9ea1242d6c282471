#include "cache/store/eviction_queue.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"
#include "base/growth.h"
#include "cache/store/prefix_node.h"

namespace ibid {

void EvictionScan::reserve(size_t n) {
  const size_t wanted = 2 * (n + 1);  // n + 1, because the root may be a parent too
  if (wanted > slots_.size()) slots_ = std::vector<Slot>(std::bit_ceil(wanted));
}

size_t& EvictionScan::children_of(const PrefixNode& parent) {
  // Use the high bits of the product, because they depend on all bits of the address.
  const uint64_t hash = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(&parent)) * 0x9e3779b97f4a7c15u;
  for (size_t at = hash >> 32;; ++at) {
    Slot& slot = slots_[at & (slots_.size() - 1)];
    if (slot.scan != scan_) slot = {&parent, scan_, 0};
    if (slot.parent == &parent) return slot.n_children;
  }
}

size_t EvictionScan::count(std::span<PrefixNode* const> leaves, size_t n) {
  if (n == 0) return 0;
  ++scan_;
  size_t found = 0;
  for (const PrefixNode* node : leaves) {
    for (; node->parent != nullptr && node->is_idle(); node = node->parent) {
      if (++found == n) return n;
      if (++children_of(*node->parent) < node->parent->children.size()) break;
    }
  }
  return found;
}

void EvictionQueue::reserve(size_t n) {
  scan_.reserve(n);
  reserve_geometric(heap_, n);
}

uint64_t EvictionQueue::value(const NodeRank& rank) const {
  if (eviction_ == Eviction::kLru) return 1;
  const uint64_t reuse = rank.was_reused_ ? 2 : 1;
  return rank.is_declared() ? 8 * reuse : reuse;
}

bool EvictionQueue::goes_before(const PrefixNode& a, const PrefixNode& b) {
  if (a.is_live() != b.is_live()) return b.is_live();
  const NodeRank &x = a.rank, &y = b.rank;
  if (!a.is_live() && x.rank_ != y.rank_) return x.rank_ < y.rank_;
  return x.last_used_ != y.last_used_ ? x.last_used_ < y.last_used_ : a.serial < b.serial;
}

void EvictionQueue::put(size_t place, PrefixNode* node) {
  heap_[place] = node;
  node->rank.place_ = place;
}

// Moves the node at `place` up or down until the heap is ordered.
void EvictionQueue::sift(size_t place) {
  PrefixNode* node = heap_[place];
  while (place > 0 && goes_before(*node, *heap_[(place - 1) / 2])) {
    put(place, heap_[(place - 1) / 2]);
    place = (place - 1) / 2;
  }
  for (;;) {
    size_t child = 2 * place + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && goes_before(*heap_[child + 1], *heap_[child])) ++child;
    if (!goes_before(*heap_[child], *node)) break;
    put(place, heap_[child]);
    place = child;
  }
  put(place, node);
}

void EvictionQueue::touch(PrefixNode& node, bool reused) {
  NodeRank& rank = node.rank;
  if (reused) rank.was_reused_ = true;
  rank.last_used_ = ++tick_;
  rank.rank_ = last_rank_ + value(rank);
  update(node);
}

void EvictionQueue::declare(PrefixNode& node) {
  node.rank.retention_ = Retention::kPrefix;
  touch(node);
}

void EvictionQueue::replace(const PrefixNode& from, PrefixNode& to) {
  if (from.rank.is_declared()) to.rank.retention_ = Retention::kPrefix;
}

void EvictionQueue::update(PrefixNode& node) {
  if (node.rank.is_queued()) sift(node.rank.place_);
}

void EvictionQueue::inherit(PrefixNode& parent, const PrefixNode& child) {
  NodeRank& to = parent.rank;
  const NodeRank& from = child.rank;
  if (std::pair(to.rank_, to.last_used_) < std::pair(from.rank_, from.last_used_)) {
    to.rank_ = from.rank_;
    to.last_used_ = from.last_used_;
  }
  // A live node (at which an idle sequence ends) is ordered by last use only, so its last use must not be earlier than
  // that of `child`.
  if (parent.is_live()) to.last_used_ = std::max(to.last_used_, from.last_used_);
}

void EvictionQueue::push(PrefixNode& node) {
  CHECK(!node.rank.is_queued() && heap_.size() < heap_.capacity());
  heap_.push_back(&node);
  sift(heap_.size() - 1);
}

void EvictionQueue::erase(PrefixNode& node) {
  const size_t place = std::exchange(node.rank.place_, NodeRank::kNotQueued);
  if (place == NodeRank::kNotQueued) return;
  PrefixNode* last = heap_.back();
  heap_.pop_back();
  if (last == &node) return;
  put(place, last);
  sift(place);
}

PrefixNode& EvictionQueue::first_idle() {
  NodeList held;
  while (!heap_.empty() && !heap_.front()->is_idle()) {
    PrefixNode& node = *heap_.front();
    erase(node);
    held.push(node);
  }
  CHECK(!heap_.empty()) << "a leaf must be idle";
  PrefixNode& first = *heap_.front();
  while (!held.empty()) {
    PrefixNode& node = held.pop();
    touch(node);
    push(node);
  }
  return first;
}

void EvictionQueue::evicted(const PrefixNode& node) {
  // Live nodes (at which idle sequences end) are evicted by last use and not by rank, so the eviction of a live node
  // does not raise the rank that later uses give.
  if (!node.is_live()) last_rank_ = std::max(last_rank_, node.rank.rank_);
}

}  // namespace ibid
