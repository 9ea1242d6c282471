// SequenceState: what the recurrent layers of one sequence go on from.
//
// A recurrent layer keeps a state, which stands for all positions up to one of them and cannot be cut. So a sequence
// has more than the state behind its last position. It also has the state in front of its last pass and what the rows
// of that pass gave, if these were few: the state behind any of them is computed from these again, by the same steps
// in the same order, so it has the same bits. A draft that is refused in part costs no more than that. And it has
// snapshots that somebody asked to keep, of the same kind: a state, and some rows behind it.
//
//   position:   0        p                  L = the sequence's length
//               |--------|======rows========|
//                        base               head
//
// The head, the state behind L, is not there when the sequence was cut within the rows.
//
// Passes that decode have a row or a few each. So that more can be taken back than the last of them gave (a stop
// string of several tokens), there is also a log: a state further back, and the rows of all passes since, up to
// kMostKeptRows. When it is full the next one begins, and the full one stays until the new one has kLogOverlap rows.
// A log is a chance: it goes when the pool has no page for it, and with the work on the sequence.
//
// States are pages of the pool, shared by reference: forks, snapshots and the store hold the same ones. A pass reads
// its first state and writes the others whole, so what is shared never changes.
//
// Part of a KvCacheEntry, and as thread-safe: the workers of one region write disjoint parts together. A model without
// recurrent layers has nothing here, and can go on from everywhere.
#pragma once

#include <string.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "cache/pages/kv_page_pool.h"

namespace ibid {

// A pass of at most so many rows keeps what they gave. A user's message and a draft are this short; a longer pass
// reads a part of a prompt, and nobody cuts it.
inline constexpr size_t kMostKeptRows = 64;
// So many rows can be taken back whenever as many were decoded.
inline constexpr size_t kLogOverlap = 16;

// What rows gave to all recurrent layers: [capacity, KvLayout::state_row_floats()], each row at a cache line. Immutable
// once shared. Wiped when they go: they say what was read.
class StateRows {
 public:
  // May throw std::bad_alloc.
  StateRows(size_t capacity, size_t row_floats) : row_lines_(row_floats / 16), lines_(capacity * row_lines_) {}
  ~StateRows() { ::explicit_bzero(lines_.data(), bytes()); }
  StateRows(const StateRows&) = delete;
  StateRows& operator=(const StateRows&) = delete;

  // Copies the first n rows of another to row `at` and those behind it.
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

// A place to go on from: the state behind `position`, and the rows behind it, from which the states behind these are
// computed again. Copying it copies references.
struct StateSnapshot {
  size_t position = 0;
  KvPage state;                           // none: position 0, where all states are zero
  std::shared_ptr<const StateRows> rows;  // none: n_rows is 0
  size_t n_rows = 0;                      // of them that count

  size_t end() const { return position + n_rows; }
  // The last position up to n to go on from. REQUIRES: position <= n.
  size_t reach(size_t n) const { return n < end() ? n : end(); }
};

class SequenceState {
 public:
  explicit SequenceState(KvPagePool& pool) noexcept : pool_(&pool) {}

  // --- between passes; `length` is the sequence's

  // The last position up to n to go on from: n itself, unless the state behind it is neither there nor can be computed
  // of what is. REQUIRES: n <= length.
  size_t resumable_length(size_t n, size_t length) const;
  // Goes on from n. REQUIRES: n == resumable_length(n, length).
  void cut(size_t n, size_t length) noexcept;
  // Goes on from n, of a sequence that was found elsewhere. `kept`: what cut() may go on from besides.
  // REQUIRES: one of them reaches n, or n is 0.
  void begin(std::vector<StateSnapshot> kept, size_t n) noexcept;

  // Keeps where the sequence is now; or the last pass: the state in front of it and its rows, or where they were too
  // many, the state behind it. May throw std::bad_alloc.
  void keep_here(size_t length) { keep(now(length)); }
  void keep_last_pass(size_t length) { keep(base_.n_rows > 0 ? base_ : now(length)); }
  // Of what was kept, only where the sequence is now stays. May throw std::bad_alloc.
  void keep_only_here(size_t length);
  // Gives up what was kept and costs least to compute again: the positions between it and the one before it. False:
  // nothing was kept.
  bool drop_cheapest() noexcept;
  // Drops all kept states and the log, which only a later cut or prompt would use. Returns whether there was any.
  bool drop_spare() noexcept;
  // What was kept, in no order.
  std::span<const StateSnapshot> kept() const { return kept_; }
  // Where the sequence goes on from now. position 0 and no rows: from the beginning.
  StateSnapshot now(size_t length) const;

  SequenceState fork() const;  // without the log; may throw std::bad_alloc
  void clear() noexcept;

  // --- a pass

  // Makes room for the states behind the next n_rows rows. Whatever was written since the last commit is forgotten.
  // Error: kOutOfMemory, and nothing has changed but that a log may be gone. May throw std::bad_alloc, likewise.
  Status reserve(size_t n_rows, size_t length);

  // Valid from reserve() to commit() or cut(). Every piece begins at a cache line, and none overlaps another.
  // [floats of the layer] What the pass begins with; null: zeros.
  const float* before(size_t layer) const;
  // Rows that are put through first, because the state behind them was given up. Usually 0.
  size_t n_replayed() const { return staged_.empty() || head_ ? 0 : base_.n_rows; }
  const float* replayed_row(size_t layer, size_t i) const {  // [row_floats]
    return base_.rows->row(i) + layout().row_offset(layer);
  }
  // [floats] Where the pass writes the state behind the replayed rows, whole, if there are any; it goes on from there.
  float* replayed(size_t layer) { return at(staged_[1], layer); }
  // [floats] Where it writes the state behind its last row, whole.
  float* after(size_t layer) { return at(staged_[0], layer); }
  // [row_floats] Where it writes what row i gives; null: the pass is too long for that.
  float* logged_row(size_t layer, size_t i) {
    return new_rows_ == nullptr ? nullptr : new_rows_->row(i) + layout().row_offset(layer);
  }
  // Says that a layer was written for n_rows rows. By one worker.
  void stage(size_t layer, size_t n_rows) { staged_rows_[layer] = n_rows; }

  // Makes what was written the sequence's. `length` is the one before. Cannot fail.
  // REQUIRES: every layer was staged with n_rows.
  void commit(size_t n_rows, size_t length) noexcept;

 private:
  const KvLayout& layout() const { return pool_->layout(); }
  bool used() const { return layout().n_states() > 0; }
  void keep(StateSnapshot snapshot);
  float* at(const KvPage& state, size_t layer) const;
  template <typename Visit>
  void visit_places(Visit&& visit) const;
  void prepare_log(size_t n_rows, size_t length);
  void cut_log(size_t n) noexcept;
  void log_pass(size_t n_rows, size_t length) noexcept;
  struct LogPages {
    bool of_base = false;  // the page of the log is the base's as well, and the base is not needed
    bool of_log = false;
    bool of_full_log = false;
    size_t count() const { return (of_base || of_log ? 1u : 0u) + (of_full_log ? 1u : 0u); }
  };
  LogPages pages_of_logs() const;
  void take_logs() noexcept;

  KvPagePool* pool_;
  StateSnapshot base_;
  KvPage head_;  // none: base_ and its rows are where the sequence goes on from
  std::vector<StateSnapshot> kept_;

  // The log, which ends where the sequence does, or is empty; the full one before it; and the memory of the log's rows,
  // which nobody else writes.
  StateSnapshot log_, full_log_;
  std::shared_ptr<StateRows> log_rows_;

  // Of the pass under way: where it writes the states behind its last row, and behind the replayed ones.
  std::vector<KvPage> staged_;
  std::shared_ptr<StateRows> new_rows_;
  std::shared_ptr<StateRows> next_log_rows_;  // takes the place of log_rows_; none: these have room
  bool log_continues_ = false;
  std::vector<size_t> staged_rows_;  // [n_states]
};

}  // namespace ibid
