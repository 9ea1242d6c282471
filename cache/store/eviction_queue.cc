#include "cache/store/eviction_queue.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ibid {

void EvictionQueue::reserve(size_t n) {
  if (n > heap_.capacity()) heap_.reserve(std::max(n, 2 * heap_.capacity()));
}

uint64_t EvictionQueue::value(const PrefixNode& node) const {
  if (eviction_ == Eviction::kLru) return 1;
  const uint64_t reuse = node.was_reused ? 2 : 1;
  return node.retention == Retention::kPrefix ? 8 * reuse : reuse;
}

void EvictionQueue::put(size_t place, PrefixNode* node) {
  heap_[place] = node;
  node->place = place;
}

// Up or down, to where it belongs.
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

void EvictionQueue::touch(PrefixNode& node) {
  node.last_used = ++tick_;
  node.rank = last_rank_ + value(node);
  if (node.place != kNotQueued) sift(node.place);
}

void EvictionQueue::update(PrefixNode& node) {
  if (node.place != kNotQueued) sift(node.place);
}

void EvictionQueue::inherit(PrefixNode& parent, const PrefixNode& child) {
  const auto age = [](const PrefixNode& node) { return std::pair(node.rank, node.last_used); };
  if (age(parent) < age(child)) {
    parent.rank = child.rank;
    parent.last_used = child.last_used;
  }
  // For live nodes only the last use counts.
  if (parent.is_live()) parent.last_used = std::max(parent.last_used, child.last_used);
}

void EvictionQueue::push(PrefixNode& node) {
  CHECK(node.place == kNotQueued && heap_.size() < heap_.capacity());
  heap_.push_back(&node);
  sift(heap_.size() - 1);
}

void EvictionQueue::erase(PrefixNode& node) {
  const size_t place = std::exchange(node.place, kNotQueued);
  if (place == kNotQueued) return;
  PrefixNode* last = heap_.back();
  heap_.pop_back();
  if (last == &node) return;
  put(place, last);
  sift(place);
}

PrefixNode& EvictionQueue::first_idle() {
  PrefixNode* held = nullptr;
  while (!heap_.empty() && !heap_.front()->is_idle()) {
    PrefixNode* node = heap_.front();
    erase(*node);
    node->next = std::exchange(held, node);
  }
  CHECK(!heap_.empty()) << "no idle leaf";
  PrefixNode& first = *heap_.front();
  while (held != nullptr) {
    PrefixNode& node = *std::exchange(held, std::exchange(held->next, nullptr));
    touch(node);
    push(node);
  }
  return first;
}

void EvictionQueue::evicted(const PrefixNode& node) {
  // A live one did not go for its rank.
  if (!node.is_live()) last_rank_ = std::max(last_rank_, node.rank);
}

}  // namespace ibid
