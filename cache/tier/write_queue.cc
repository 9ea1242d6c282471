#include "cache/tier/write_queue.h"

#include <algorithm>
#include <utility>

#include "base/token_prefix.h"

namespace ibid {

bool WriteQueue::add(WaitingPage waiting) {
  const TokenSpan ids = waiting.page_ids();
  for (WaitingPage& other : pages_) {
    if (other.before != waiting.before || other.identity != waiting.identity) continue;
    const size_t n = common_prefix_length(other.page_ids(), ids);
    if (n < std::min(other.page_ids().size(), ids.size())) continue;
    if (n < ids.size()) std::swap(other, waiting);
    return true;
  }
  if (!has_room(layout_.page_bytes())) return false;
  pages_.push_back(std::move(waiting));
  return true;
}

size_t WriteQueue::bytes_of(const WaitingState& state) const {
  return (state.snapshot.position == 0 ? 0 : layout_.state_bytes()) +
         state.snapshot.n_rows * layout_.state_row_floats() * sizeof(float);
}

bool WriteQueue::add(WaitingState waiting) {
  const TokenSpan ids = waiting.page_ids();
  for (WaitingState& other : states_) {
    if (other.snapshot.position != waiting.snapshot.position) continue;
    if (other.before != waiting.before || other.identity != waiting.identity) continue;
    const size_t n = common_prefix_length(other.page_ids(), ids);
    if (n < std::min(other.page_ids().size(), ids.size())) continue;
    if (n == ids.size()) return true;
    state_bytes_ += bytes_of(waiting) - bytes_of(other);
    std::swap(other, waiting);
    return true;
  }
  if (!has_room(bytes_of(waiting))) return false;
  states_.push_back(std::move(waiting));
  state_bytes_ += bytes_of(states_.back());
  return true;
}

WriteQueue::Next WriteQueue::pop() {
  Next next;
  if (!pages_.empty()) {
    next.page = std::move(pages_.front());
    pages_.pop_front();
  } else if (!states_.empty()) {
    state_bytes_ -= bytes_of(states_.front());
    next.state = std::move(states_.front());
    states_.pop_front();
  }
  return next;
}

void WriteQueue::forget(const Sha256Digest& name_space) {
  const auto is_of = [&](const auto& waiting) { return waiting.identity.name_space == name_space; };
  std::erase_if(pages_, is_of);
  std::erase_if(states_, is_of);
  state_bytes_ = 0;
  for (const WaitingState& state : states_) state_bytes_ += bytes_of(state);
}

void WriteQueue::clear() {
  pages_.clear();
  states_.clear();
  state_bytes_ = 0;
}

void WriteQueue::move_to(WriteQueue& other) noexcept {
  pages_.swap(other.pages_);
  states_.swap(other.states_);
  std::swap(state_bytes_, other.state_bytes_);
}

}  // namespace ibid
