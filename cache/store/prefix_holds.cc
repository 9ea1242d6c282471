#include "cache/store/prefix_holds.h"

#include <algorithm>
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

// Adds `more` (1 or -1) to n_resume_points of all pages whose window part (sliding-window layers) a sequence needs to
// resume at `length`; the last of these pages is `node`.
void PrefixHolds::count_resume_points(PrefixNode* node, size_t length, size_t more) {
  const KvLayout& layout = pool_.layout();
  if (layout.window() == 0) return;
  for (size_t i = KvLayout::pages_for(length); i > layout.first_window_page(length); --i, node = node->parent) {
    size_t& n_resume_points = node->holds.n_resume_points_;
    const bool was_end = n_resume_points > 0;
    n_resume_points += more;
    if (was_end != (n_resume_points > 0)) pool_.mark_resume_point(node->page, n_resume_points > 0);
  }
}

void PrefixHolds::set_prefix_end(PrefixNode& node, size_t length) {
  const size_t was = std::exchange(node.holds.prefix_end_, length);
  if (length > 0) count_resume_points(&node, length, 1);
  if (was > 0) count_resume_points(&node, was, size_t{0} - 1);
}

void PrefixHolds::replace_page(const KvPage& from, const PrefixNode& node) {
  if (node.holds.n_resume_points_ == 0) return;
  pool_.mark_resume_point(from, false);
  pool_.mark_resume_point(node.page, true);
}

void PrefixHolds::set_mark(PrefixMark& mark, PrefixNode* node, size_t length) {
  CHECK((node == nullptr) == (length == 0));
  PrefixNode* was = mark.node;
  if (was == node && mark.length == length) return;
  // Count the new resume point before the old one is subtracted, so that pages that both need stay marked and keep
  // their place in the pool's eviction order.
  if (node != nullptr) count_resume_points(node, length, 1);
  if (was != nullptr) count_resume_points(was, mark.length, size_t{0} - 1);
  if (was != nullptr) unlink(mark);
  mark.node = node;
  mark.length = length;
  if (node != nullptr) {
    CHECK(node->parent != nullptr) << "the root must not be marked";
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
  if (const size_t end = from.holds.prefix_end_; end > 0) {
    set_prefix_end(to, std::max(end, to.holds.prefix_end_));
    set_prefix_end(from, 0);
  }
}

void PrefixHolds::lift(PrefixNode& node, PrefixNode* parent) {
  while (PrefixMark* mark = node.holds.marks_) {
    const size_t begin = (mark->length - 1) / kPagePositions * kPagePositions;
    set_mark(*mark, parent, begin);
  }
  if (const size_t end = node.holds.prefix_end_; end > 0) {
    const size_t begin = (end - 1) / kPagePositions * kPagePositions;
    if (parent != nullptr && parent->holds.prefix_end_ == 0) set_prefix_end(*parent, begin);
    set_prefix_end(node, 0);
  }
  if (node.holds.n_pins_ > 0) std::erase_if(pins_, [&](const auto& pin) { return pin.second == &node; });
}

PrefixHolds::PinnedNodes::PinnedNodes(PrefixNode* a, PrefixNode* b) : nodes_{a, b} {
  for (PrefixNode* node : nodes_) {
    if (node != nullptr) ++node->holds.n_pins_;
  }
}

PrefixHolds::PinnedNodes::~PinnedNodes() {
  for (PrefixNode* node : nodes_) {
    if (node != nullptr) --node->holds.n_pins_;
  }
}

}  // namespace ibid
