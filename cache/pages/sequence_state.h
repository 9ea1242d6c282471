// SequenceState: states of the recurrent layers of one sequence.
//
// A recurrent state depends on all positions before it and cannot be sliced. So a sequence keeps not only the state
// after its last position (the head), but also the state before its last pass (the base) and, if the pass was short,
// its rows: what each of its positions added to the state. From base and rows the state after any of these positions is
// recomputed by the same steps in the same order, so the bits are the same. Rejecting a part of a draft therefore costs
// no extra pass. Snapshots that a caller asked to keep have the same form: a state, and rows after it.
//   position:   0        p                  L = length of the sequence
//               |--------|======rows========|
//                        base               head
// The head is missing after the sequence was sliced within the rows.
//
// Decoding passes have one row or a few. So that more than the last pass can be rolled back (a stop string of several
// tokens), there is also a log: an earlier state, and the rows of all passes since that state, up to kMostKeptRows.
// When a log is full, a new log starts, and the full log is kept until the new log has kLogOverlap rows. Logs are
// optional: they are freed if the pool is short of pages, and when the sequence becomes idle.
//
// States are pages of the pool, shared by reference among forks, snapshots and the store. A pass reads its first state
// and overwrites the others completely, so shared states never change.
//
// Part of a KvCacheEntry, with the same thread-safety: the workers of a region write disjoint parts. Empty for a model
// without recurrent layers, which can resume at every position.
#pragma once

#include <cstring>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "cache/pages/kv_page_pool.h"

namespace ibid {

// Maximum rows of a pass that keeps its rows. Most user messages and drafts are that short. A longer pass prefills a
// part of a prompt, which is never sliced.
inline constexpr size_t kMostKeptRows = 64;
// Number of decoded rows that can always be rolled back.
inline constexpr size_t kLogOverlap = 16;

// The contributions of positions to all recurrent layers: [capacity, KvLayout::state_row_floats()], each row aligned to
// a cache line. Immutable once the rows are shared. Zeroed on destruction, because the rows reveal the text.
class StateRows {
 public:
  // May throw std::bad_alloc.
  StateRows(size_t capacity, size_t row_floats) : row_lines_(row_floats / 16), lines_(capacity * row_lines_) {}
  ~StateRows() { ::explicit_bzero(lines_.data(), bytes()); }
  StateRows(const StateRows&) = delete;
  StateRows& operator=(const StateRows&) = delete;

  // Copies the first n rows of `from` to rows [at, at + n).
  void copy(const StateRows& from, size_t n, size_t at) {
    std::copy_n(from.lines_.begin(), n * row_lines_, lines_.begin() + static_cast<ptrdiff_t>(at * row_lines_));
  }

  size_t capacity() const { return lines_.size() / row_lines_; }
  size_t bytes() const { return lines_.size() * sizeof(Line); }
  float* row(size_t i) { return lines_[i * row_lines_].values; }
  const float* row(size_t i) const { return lines_[i * row_lines_].values; }

 private:
  struct alignas(64) Line {
    float values[16];
  };
  size_t row_lines_;
  std::vector<Line> lines_;
};

// A position at which a sequence can resume: the state after `position`, and the rows after it, from which later states
// are recomputed. Copies share memory.
struct StateSnapshot {
  size_t position = 0;
  KvPage state;  // page of the states after `position`; empty at position 0, where all states are zero
  std::shared_ptr<const StateRows> rows;  // null if n_rows is 0
  size_t n_rows = 0;                      // number of valid rows

  size_t end() const { return position + n_rows; }
  // Returns the last position <= n at which a sequence can resume from this snapshot. REQUIRES: position <= n.
  size_t reach(size_t n) const { return n < end() ? n : end(); }
};

class SequenceState {
 public:
  explicit SequenceState(KvPagePool& pool) noexcept : pool_(&pool) {}

  // --- between passes; `length` is the length of the sequence

  // Returns the last position <= n at which the sequence can resume: n itself, unless the state after n is neither kept
  // nor recomputable. REQUIRES: n <= length.
  size_t resumable_length(size_t n, size_t length) const;
  // Slices the sequence to n positions. REQUIRES: n == resumable_length(n, length).
  void slice(size_t n, size_t length) noexcept;
  // Resumes a stored sequence at n. `kept`: snapshots of the sequence; those not needed now stay available for slice().
  // REQUIRES: a snapshot reaches n, or n is 0.
  void begin(std::vector<StateSnapshot> kept, size_t n) noexcept;

  // keep_here() and keep_last_pass() keep a snapshot for later prompts. keep_here() keeps the state at the current
  // position; keep_last_pass() keeps the state before the last pass with the rows of that pass or, if the pass was too
  // long for rows, the state after it. May throw std::bad_alloc.
  void keep_here(size_t length) { keep(now(length)); }
  void keep_last_pass(size_t length) { keep(base_.n_rows > 0 ? base_ : now(length)); }
  // Drops all snapshots, and keeps one of the state at the current position. May throw std::bad_alloc.
  void keep_only_here(size_t length);
  // Drops the snapshot that is cheapest to recompute: the snapshot with the fewest positions since the preceding
  // snapshot. Returns false if there are no snapshots.
  bool drop_cheapest() noexcept;
  // Drops all snapshots and the logs, which only later slices or prompts use. Returns false if nothing was dropped.
  bool drop_spare() noexcept;
  // The snapshots, in no particular order.
  std::span<const StateSnapshot> kept() const { return kept_; }
  // Returns a snapshot of the current position. A snapshot at position 0 without rows is the beginning of the sequence.
  StateSnapshot now(size_t length) const;

  SequenceState fork() const;  // copies everything but the log; may throw std::bad_alloc
  void clear() noexcept;

  // --- during a pass

  // Allocates pages for the states of a pass of n_rows rows, and drops everything staged since the last commit. Error:
  // kOutOfMemory. May throw std::bad_alloc. After an error or exception nothing has changed, except that the logs may
  // have been freed.
  Status reserve(size_t n_rows, size_t length);

  // The arrays below are valid from reserve() to commit() or slice(), aligned to cache lines, and do not overlap.
  // [floats of the layer] The state before the pass; null: zeros.
  const float* before(size_t layer) const;
  // Number of rows to replay before the pass, because the state after these rows was not kept. Usually 0.
  size_t n_replayed() const { return staged_.empty() || head_ ? 0 : base_.n_rows; }
  const float* replayed_row(size_t layer, size_t i) const {  // [row_floats]
    return base_.rows->row(i) + layout().row_offset(layer);
  }
  // [floats] Where to write the state after the replayed rows, if there are any; the pass starts from that state.
  float* replayed(size_t layer) { return at(staged_[1], layer); }
  // [floats] Where to write the state after the last row.
  float* after(size_t layer) { return at(staged_[0], layer); }
  // [row_floats] Where to write what row i adds to the state; null if the pass is too long to keep rows.
  float* logged_row(size_t layer, size_t i) {
    return new_rows_ == nullptr ? nullptr : new_rows_->row(i) + layout().row_offset(layer);
  }
  // Records that a layer was written for n_rows rows. Called by one worker.
  void stage(size_t layer, size_t n_rows) { staged_rows_[layer] = n_rows; }

  // Publishes the states that the pass wrote. `length` is the length before the pass. Cannot fail.
  // REQUIRES: every layer was staged with n_rows.
  void commit(size_t n_rows, size_t length) noexcept;

 private:
  const KvLayout& layout() const { return pool_->layout(); }
  bool used() const { return layout().n_states() > 0; }
  void keep(StateSnapshot snapshot);
  float* at(const KvPage& state, size_t layer) const;
  template <typename Visit>
  void visit_snapshots(Visit&& visit) const;
  void prepare_log(size_t n_rows, size_t length);
  void cut_log(size_t n) noexcept;
  void log_pass(size_t n_rows, size_t length) noexcept;
  struct LogPages {
    bool of_base = false;  // the page is held only by base_ and log_, and the next pass does not read base_
    bool of_log = false;
    bool of_full_log = false;
    size_t count() const { return (of_base || of_log ? 1u : 0u) + (of_full_log ? 1u : 0u); }
  };
  LogPages pages_of_logs() const;
  void take_logs() noexcept;

  KvPagePool* pool_;
  StateSnapshot base_;
  KvPage head_;  // page of the state at the sequence's end; empty: the state is recomputed from base_ and its rows
  std::vector<StateSnapshot> kept_;

  // The log, which is empty or ends at the end of the sequence; the full log before that log; and the storage of the
  // log's rows, which only this object writes.
  StateSnapshot log_, full_log_;
  std::shared_ptr<StateRows> log_rows_;

  // Where the pass in progress writes the states: after its last row, and after the replayed rows.
  std::vector<KvPage> staged_;
  std::shared_ptr<StateRows> new_rows_;
  // Storage that replaces log_rows_ at commit(); null: log_rows_ has room for the rows of the pass.
  std::shared_ptr<StateRows> next_log_rows_;
  bool log_continues_ = false;
  std::vector<size_t> staged_rows_;  // [n_states]
};

}  // namespace ibid
