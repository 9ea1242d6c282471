#include "sampling/token_history.h"

#include "base/check.h"

namespace ibid {

void TokenHistory::keep(size_t window, bool repeats) {
  if (window != window_) {
    window_ = window;
    recent_.clear();
    for (size_t i = window_begin(); i < size(); ++i) add(recent_, ids_[i]);
  }
  if (!repeats && keeps_repeats_) {
    n_steps_ += repeats_.n_steps();
    repeats_ = RepeatIndex();
  }
  keeps_repeats_ = repeats;
  if (!repeats) return;
  for (size_t i = repeats_.size(); i < size(); ++i) repeats_.append(ids_[i]);
}

void TokenHistory::append(TokenSpan ids) {
  for (const TokenId id : ids) {
    // With a window the oldest id makes room.
    if (window_ > 0 && window_ <= size()) remove(recent_, ids_[window_begin()]);
    if (window_ > 0) add(recent_, id);
    ids_.push_back(id);
    if (keeps_repeats_) repeats_.append(id);
  }
}

void TokenHistory::begin_answer() {
  answer_begin_ = size();
  answer_.clear();
}

void TokenHistory::push(TokenId id) {
  append({&id, 1});
  add(answer_, id);
}

void TokenHistory::truncate(size_t n) {
  CHECK_LE(n, size());
  const size_t old_begin = window_begin(), old_size = size();
  for (size_t i = std::max(n, answer_begin_); i < old_size; ++i) remove(answer_, ids_[i]);
  answer_begin_ = std::min(answer_begin_, n);
  if (window_ > 0) {
    for (size_t i = std::max(n, old_begin); i < old_size; ++i) remove(recent_, ids_[i]);
  }
  ids_.resize(n);
  // Ids that had left the window are in it again.
  for (size_t i = window_begin(); i < std::min(old_begin, n); ++i) add(recent_, ids_[i]);
  if (keeps_repeats_) repeats_.truncate(n);
}

void TokenHistory::add(Counts& counts, TokenId id) {
  ++n_steps_;
  ++counts[id];
}

void TokenHistory::remove(Counts& counts, TokenId id) {
  ++n_steps_;
  const auto found = counts.find(id);
  CHECK(found != counts.end()) << "id " << id << " was not counted";
  if (--found->second == 0) counts.erase(found);
}

}  // namespace ibid
