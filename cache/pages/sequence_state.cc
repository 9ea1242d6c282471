#include "cache/pages/sequence_state.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ibid {

float* SequenceState::at(const KvPage& state, size_t layer) const {
  return reinterpret_cast<float*>(state.data()) + layout().state_offset(layer);
}

// --- between passes

// Visits all snapshots from which the sequence can resume, except base_, the snapshot of the last pass.
template <typename Visit>
void SequenceState::visit_snapshots(Visit&& visit) const {
  for (const StateSnapshot& snapshot : kept_) visit(snapshot);
  if (log_.n_rows > 0) visit(log_);
  if (full_log_.n_rows > 0) visit(full_log_);
}

size_t SequenceState::resumable_length(size_t n, size_t length) const {
  if (!used() || (n == length && head_)) return n;
  size_t best = base_.position <= n ? base_.reach(n) : 0;
  visit_snapshots([&](const StateSnapshot& snapshot) {
    if (snapshot.position <= n) best = std::max(best, snapshot.reach(n));
  });
  return best;
}

void SequenceState::slice(size_t n, size_t length) noexcept {
  if (!used()) return;
  staged_.clear();
  if (n == length) return;
  // Resume from the state before the last pass if its rows reach n; otherwise from the snapshot that reaches n with the
  // fewest rows to recompute.
  const StateSnapshot* from = base_.position <= n && base_.end() >= n ? &base_ : nullptr;
  visit_snapshots([&](const StateSnapshot& snapshot) {
    if (from == &base_ || snapshot.position > n || snapshot.end() < n) return;
    if (from == nullptr || snapshot.position > from->position) from = &snapshot;
  });
  StateSnapshot base;
  if (from != nullptr) base = *from;
  CHECK(from != nullptr || n == 0) << "a state must reach position " << n;
  base.n_rows = n - base.position;
  head_ = KvPage();
  base_ = std::move(base);
  cut_log(n);
  std::erase_if(kept_, [n](const StateSnapshot& snapshot) { return snapshot.position > n; });
  for (StateSnapshot& snapshot : kept_) snapshot.n_rows = snapshot.reach(n) - snapshot.position;
}

void SequenceState::begin(std::vector<StateSnapshot> kept, size_t n) noexcept {
  clear();
  if (!used()) return;
  kept_ = std::move(kept);
  slice(n, n + 1);
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

bool SequenceState::drop_cheapest() noexcept {
  if (kept_.empty()) return false;
  // Sort the snapshots such that each follows the snapshot from which it would be recomputed if it were dropped.
  // Snapshots at one position are sorted by number of rows.
  std::ranges::sort(kept_, [](const StateSnapshot& a, const StateSnapshot& b) {
    return a.position != b.position ? a.position < b.position : a.n_rows < b.n_rows;
  });
  // If two snapshots are at one position, the snapshot with more rows makes the other useless.
  size_t cheapest = 0, least = kept_.front().position + 1;
  for (size_t i = 0; i < kept_.size(); ++i) {
    const bool covered = i + 1 < kept_.size() && kept_[i + 1].position == kept_[i].position;
    const size_t before = i == 0 ? 0 : kept_[i - 1].position;
    const size_t cost = covered ? 0 : kept_[i].position - before;
    if (cost >= least) continue;
    cheapest = i;
    least = cost;
  }
  kept_.erase(kept_.begin() + static_cast<ptrdiff_t>(cheapest));
  return true;
}

bool SequenceState::drop_spare() noexcept {
  const bool any = !kept_.empty() || log_.state || full_log_.state;
  kept_.clear();
  log_ = full_log_ = {};
  log_rows_.reset();
  next_log_rows_.reset();
  log_continues_ = false;
  return any;
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
  log_ = full_log_ = {};
  log_rows_.reset();
}

// --- the log

// Allocates storage for the rows of a pass, in the current log (a state and the rows of all passes since that state) or
// in a new log. May throw std::bad_alloc.
void SequenceState::prepare_log(size_t n_rows, size_t length) {
  next_log_rows_.reset();
  log_continues_ = log_rows_ != nullptr && log_.end() == length && log_.n_rows + n_rows <= kMostKeptRows;
  if (n_rows > kMostKeptRows) return;
  const size_t n_wanted = (log_continues_ ? log_.n_rows : 0) + n_rows;
  if (log_continues_ && log_rows_->capacity() >= n_wanted) return;
  const size_t capacity = log_continues_ ? std::min(kMostKeptRows, 2 * n_wanted) : n_wanted;
  auto rows = std::make_shared<StateRows>(capacity, layout().state_row_floats());
  if (log_continues_) rows->copy(*log_rows_, log_.n_rows, 0);
  next_log_rows_ = std::move(rows);
}

// Adds the rows of the committed pass to the log. `length`: number of positions before the pass.
void SequenceState::log_pass(size_t n_rows, size_t length) noexcept {
  if (new_rows_ == nullptr) {
    log_ = full_log_ = {};
    log_rows_.reset();
    return;
  }
  if (!log_continues_) {
    if (log_.n_rows > 0) full_log_ = std::move(log_);
    log_ = {length, base_.state, nullptr, 0};
  }
  if (next_log_rows_ != nullptr) log_rows_ = std::move(next_log_rows_);
  log_rows_->copy(*new_rows_, n_rows, log_.n_rows);
  log_.rows = log_rows_;
  log_.n_rows += n_rows;
  log_continues_ = false;
  if (log_.n_rows >= kLogOverlap) full_log_ = {};
}

// Slices the log, whose rows allow the last passes to be rolled back, to position n. If the sequence resumes at n from
// the rows of the log, these rows become immutable, and a new log begins.
void SequenceState::cut_log(size_t n) noexcept {
  next_log_rows_.reset();
  log_continues_ = false;
  if (log_.position >= n) log_ = {};
  if (log_.n_rows > 0) log_.n_rows = n - log_.position;
  if (log_.n_rows > 0 && base_.rows == log_.rows) full_log_ = std::exchange(log_, {});
  if (full_log_.position >= n) full_log_ = {};
  if (full_log_.n_rows > 0) full_log_.n_rows = full_log_.reach(n) - full_log_.position;
  if (log_.n_rows == 0) log_rows_.reset();
}

// Returns the pages of states that only the logs hold, so that a pass may overwrite them.
SequenceState::LogPages SequenceState::pages_of_logs() const {
  return {.of_base = head_ && base_.state == log_.state && base_.state.use_count() == 2,
          .of_log = log_.state && log_.state.use_count() == 1,
          .of_full_log = full_log_.state && full_log_.state.use_count() == 1};
}

// Drops the logs (states and rows for rolling back passes). Pages that only the logs held become the destinations of
// the current pass.
void SequenceState::take_logs() noexcept {
  const LogPages pages = pages_of_logs();
  if (pages.of_full_log) staged_.push_back(std::move(full_log_.state));
  if (pages.of_log || pages.of_base) {
    staged_.push_back(std::move(log_.state));
    if (pages.of_base) base_ = {};
  }
  if (next_log_rows_ == nullptr) next_log_rows_ = std::move(log_rows_);  // null: log_rows_ has room
  log_ = full_log_ = {};
  log_rows_.reset();
  log_continues_ = false;
}

// --- during a pass

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
  // If head_ exists, the pass starts from it and does not need base_, the state before the last pass. So the pass
  // writes its own state to the page of base_, unless other holders share that page.
  const bool takes_base = head_ && base_.state.use_count() == 1;
  const size_t n_wanted = replays ? 2 : 1;
  const size_t n_have = staged_.size() + (takes_base ? 1 : 0);
  std::vector<KvPage> fresh;
  staged_.reserve(4);
  prepare_log(n_rows, length);
  if (n_have < n_wanted) {
    const size_t n_missing = n_wanted - n_have;
    Result<std::vector<KvPage>> pages = pool_->allocate_states(n_missing);
    if (pages.ok()) {
      fresh = *std::move(pages);
    } else {
      // If the pool is short, use the pages that only the logs hold, and drop the references to shared pages, so that
      // the store can evict the shared pages.
      if (!log_.state && !full_log_.state) return pages.status();
      const LogPages own = pages_of_logs();
      if (!own.of_base && !own.of_log) log_ = {};
      if (!own.of_full_log) full_log_ = {};
      if (own.count() < n_missing) {
        TRY_ASSIGN(fresh, pool_->allocate_states(n_missing - own.count()));
      }
      take_logs();
    }
  }

  // Nothing below this line can fail.
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
  // base_ becomes the state before this pass, with the rows of this pass.
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
  log_pass(n_rows, length);
}

}  // namespace ibid
