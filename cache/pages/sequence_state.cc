#include "cache/pages/sequence_state.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ibid {

float* SequenceState::at(const KvPage& state, size_t layer) const {
  return reinterpret_cast<float*>(state.data()) + layout().state_offset(layer);
}

// --- between passes

size_t SequenceState::resumable_length(size_t n, size_t length) const {
  if (!used() || (n == length && head_)) return n;
  size_t best = base_.position <= n ? base_.reach(n) : 0;
  for (const StateSnapshot& snapshot : kept_) {
    if (snapshot.position <= n) best = std::max(best, snapshot.reach(n));
  }
  return best;
}

void SequenceState::cut(size_t n, size_t length) noexcept {
  if (!used()) return;
  staged_.clear();
  if (n == length) return;
  // Of the places that reach n, the one with the fewest rows to compute again; the last pass where it is one of them.
  const StateSnapshot* from = base_.position <= n && base_.end() >= n ? &base_ : nullptr;
  for (const StateSnapshot& snapshot : kept_) {
    if (from == &base_) break;
    if (snapshot.position > n || snapshot.end() < n) continue;
    if (from == nullptr || snapshot.position > from->position) from = &snapshot;
  }
  StateSnapshot base;
  if (from != nullptr) base = *from;
  CHECK(from != nullptr || n == 0) << "no state to go on from at " << n;
  base.n_rows = n - base.position;
  head_ = KvPage();
  base_ = std::move(base);
  std::erase_if(kept_, [n](const StateSnapshot& snapshot) { return snapshot.position > n; });
  for (StateSnapshot& snapshot : kept_) snapshot.n_rows = snapshot.reach(n) - snapshot.position;
}

void SequenceState::begin(std::vector<StateSnapshot> kept, size_t n) noexcept {
  clear();
  if (!used()) return;
  kept_ = std::move(kept);
  cut(n, n + 1);
}

void SequenceState::keep(StateSnapshot snapshot) {
  if (used() && snapshot.end() > 0) kept_.push_back(std::move(snapshot));
}

void SequenceState::keep_only_here(size_t length) {
  if (!used()) return;
  kept_.reserve(1);
  kept_.clear();
  keep_here(length);
}

StateSnapshot SequenceState::now(size_t length) const {
  return head_ ? StateSnapshot{length, head_, nullptr, 0} : base_;
}

SequenceState SequenceState::fork() const {
  SequenceState copy(*pool_);
  copy.base_ = base_;
  copy.head_ = head_;
  copy.kept_ = kept_;
  return copy;
}

void SequenceState::clear() noexcept {
  base_ = {};
  head_ = KvPage();
  kept_.clear();
  staged_.clear();
  new_rows_.reset();
}

// --- a pass

Status SequenceState::reserve(size_t n_rows, size_t length) {
  if (!used()) return {};
  CHECK(head_ || base_.end() == length);
  const bool replays = !head_ && base_.n_rows > 0;
  std::vector<size_t> staged_rows(layout().n_states(), 0);
  std::shared_ptr<StateRows> new_rows;
  if (n_rows <= kMostKeptRows) {
    const bool reuses = new_rows_ != nullptr && new_rows_.use_count() == 1 && new_rows_->capacity() >= n_rows;
    new_rows = reuses ? new_rows_ : std::make_shared<StateRows>(n_rows, layout().state_row_floats());
  }
  // The state in front of the last pass is not needed any more where the one behind it is there: if it is nobody
  // else's, it is written anew.
  const bool takes_base = head_ && base_.state.use_count() == 1;
  const size_t n_wanted = replays ? 2 : 1;
  const size_t n_have = staged_.size() + (takes_base ? 1 : 0);
  std::vector<KvPage> fresh;
  staged_.reserve(2);
  if (n_have < n_wanted) {
    TRY_ASSIGN(fresh, pool_->allocate_states(n_wanted - n_have));
  }

  // Nothing below fails.
  for (KvPage& page : fresh) staged_.push_back(std::move(page));
  if (staged_.size() < n_wanted) {
    staged_.push_back(std::move(base_.state));
    base_ = {length, KvPage(), nullptr, 0};
  }
  staged_.resize(n_wanted);
  new_rows_ = std::move(new_rows);
  staged_rows_ = std::move(staged_rows);
  return {};
}

const float* SequenceState::before(size_t layer) const {
  const KvPage& state = head_ ? head_ : base_.state;
  return state ? at(state, layer) : nullptr;
}

void SequenceState::commit(size_t n_rows, size_t length) noexcept {
  if (!used()) return;
  for (size_t layer = 0; layer < staged_rows_.size(); ++layer) {
    CHECK_EQ(staged_rows_[layer], n_rows) << "rows staged in recurrent layer " << layer << ", tokens to commit";
    staged_rows_[layer] = 0;
  }
  // The state in front of this pass, and what its rows gave.
  if (head_) {
    base_.state = std::move(head_);
  } else if (base_.n_rows > 0) {
    base_.state = std::move(staged_[1]);
  }
  base_.position = length;
  base_.n_rows = new_rows_ == nullptr ? 0 : n_rows;
  base_.rows = new_rows_;
  head_ = std::move(staged_[0]);
  staged_.clear();
}

}  // namespace ibid
