#include "cache/store/prefix_holds.h"

#include <utility>

#include "base/check.h"
#include "cache/store/eviction_queue.h"
#include "cache/store/prefix_node.h"

namespace ibid {

std::vector<size_t> NodeHolds::mark_lengths() const {
  std::vector<size_t> lengths;
  for (const PrefixMark* mark = marks_; mark != nullptr; mark = mark->next_) lengths.push_back(mark->length);
  return lengths;
}

uint64_t PrefixHolds::pin(PrefixNode& node) {
  pins_.emplace(last_pin_ + 1, &node);
  ++node.holds.n_pins_;
  return ++last_pin_;
}

void PrefixHolds::unpin(uint64_t pin) {
  const auto found = pins_.find(pin);
  if (found == pins_.end()) return;
  --found->second->holds.n_pins_;
  pins_.erase(found);
}

void PrefixHolds::unlink(PrefixMark& mark) {
  (mark.previous_ != nullptr ? mark.previous_->next_ : mark.node->holds.marks_) = mark.next_;
  if (mark.next_ != nullptr) mark.next_->previous_ = mark.previous_;
  mark.previous_ = mark.next_ = nullptr;
  --n_marks_;
}

void PrefixHolds::set_mark(PrefixMark& mark, PrefixNode* node, size_t length) {
  CHECK((node == nullptr) == (length == 0));
  PrefixNode* was = mark.node;
  if (was != nullptr) unlink(mark);
  mark.node = node;
  mark.length = length;
  if (node != nullptr) {
    CHECK(node->parent != nullptr) << "the root holds no ids";
    mark.next_ = std::exchange(node->holds.marks_, &mark);
    if (mark.next_ != nullptr) mark.next_->previous_ = &mark;
    ++n_marks_;
  }
  if (was == node) return;
  if (was != nullptr) queue_.update(*was);
  if (node != nullptr) queue_.update(*node);
}

void PrefixHolds::replace(PrefixNode& from, PrefixNode& to) {
  for (auto& [pin, pinned] : pins_) {
    if (pinned == &from) pinned = &to;
  }
  to.holds.n_pins_ += std::exchange(from.holds.n_pins_, 0);
  while (PrefixMark* mark = from.holds.marks_) set_mark(*mark, &to, mark->length);
}

void PrefixHolds::lift(PrefixNode& node, PrefixNode* parent) {
  while (PrefixMark* mark = node.holds.marks_) {
    const size_t begin = (mark->length - 1) / kPagePositions * kPagePositions;
    set_mark(*mark, parent, begin);
  }
  if (node.holds.n_pins_ > 0) std::erase_if(pins_, [&](const auto& pin) { return pin.second == &node; });
}

PrefixHolds::Kept::Kept(PrefixNode* a, PrefixNode* b) : nodes_{a, b} {
  for (PrefixNode* node : nodes_) {
    if (node != nullptr) ++node->holds.n_pins_;
  }
}

PrefixHolds::Kept::~Kept() {
  for (PrefixNode* node : nodes_) {
    if (node != nullptr) --node->holds.n_pins_;
  }
}

}  // namespace ibid
