// Divides one call of attention() into tasks, and the tasks into shares of equal cost. Used only by attention.cc.
//
// A task is a query tile for one KV head: rows of one sequence, or of several that begin with the same pages. It is a
// list of reads. Each read loads one block once, for all rows of the tile whose sequence has the block. The reads for
// one row are in increasing order of blocks. A task may be divided among threads between any two reads.
//
// The shared blocks of a tile's sequences form a prefix tree, stored as the sequences in depth-first order with the
// number of blocks that each shares with the previous one. The first sequence of a tile has a read for each of its
// blocks, and each later sequence has reads only for blocks that no earlier sequence has. The reads are in the order of
// the sequences.
#pragma once

#include <algorithm>
#include <span>

#include "kernels/ops/attention.h"

namespace ibid {

// Consecutive reads for the same rows: blocks [first_block, end_block) of one sequence's pages.
struct AttentionRun {
  size_t sequence = 0;           // index, within the task, of the first sequence that has the run's blocks
  size_t first_row_in_tile = 0;  // index, within the tile, of the first row of that sequence
  size_t n_tokens = 0;
  size_t first_block = 0;
  size_t end_block = 0;

  size_t blocks() const { return end_block - first_block; }
};

class AttentionTask {
 public:
  AttentionTask() = default;
  // Makes the task of a tile with n_tokens rows of `sequences`: rows of the first sequence from first_row on, and all
  // rows of the others. A tile of one sequence may end before its last row. REQUIRES: with several sequences, the
  // window covers all their positions.
  AttentionTask(const AttentionShape& shape, std::span<const AttentionSequence> sequences, size_t kv_head,
                size_t first_row, size_t n_tokens, bool is_last_tile);

  bool empty() const { return sequences.empty(); }
  size_t n_rows() const { return n_tokens * group; }

  // For the i-th sequence of the tile: its number of rows in the tile, and the first row's index and position.
  size_t tokens_of(size_t i) const {
    if (i != 0) return sequences[i].n_rows;
    return sequences.size() == 1 ? n_tokens : sequences[0].n_rows - first_row;
  }
  size_t row_of(size_t i) const { return sequences[i].first_row + (i == 0 ? first_row : 0); }
  size_t position_of(size_t i) const { return sequences[i].first_position + (i == 0 ? first_row : 0); }
  size_t end_position_of(size_t i) const { return position_of(i) + tokens_of(i); }
  size_t end_block_of(size_t i) const { return (end_position_of(i) - 1) / kAttentionBlock + 1; }

  // The runs, in the order of the reads. After the last run, run_after() returns a run without blocks.
  AttentionRun first_run() const { return run_from(0, 0, first_block); }
  AttentionRun run_after(const AttentionRun& run) const;

  // Calls visit(run, from, to) for the blocks [from, to) of each run that are among the reads [begin, end).
  template <typename Visit>
  void for_each_run(size_t begin, size_t end, Visit&& visit) const {
    size_t read = 0;
    for (AttentionRun run = first_run(); read < end; run = run_after(run)) {
      const size_t after = read + run.blocks();
      if (after > begin) {
        visit(run, run.first_block + std::max(begin, read) - read, run.first_block + std::min(end, after) - read);
      }
      read = after;
    }
  }

  // Returns how many of the task's first reads (a read loads one block for all rows) together cost about `part`.
  size_t read_at(size_t part) const;

  std::span<const AttentionSequence> sequences;
  size_t kv_head = 0;
  size_t group = 1;      // query heads per KV head
  size_t first_row = 0;  // the tile begins at this row of the first sequence
  size_t n_tokens = 0;
  size_t first_block = 0;  // first block that any row of the tile sees
  size_t n_reads = 0;
  size_t cost = 0;           // estimated work: positions read, and positions multiplied by rows
  bool is_last_tile = true;  // no later tile reads pages of this KV head

 private:
  AttentionRun run_from(size_t sequence, size_t first_row_in_tile, size_t block) const;
};

// Returns the first position that the row at `position` sees.
size_t first_visible(const AttentionShape& shape, size_t position);

// Returns the number of tokens of a query tile: a multiple of four if at least four fit, so that register tiles are
// full.
size_t tile_tokens(const AttentionShape& shape);

// Where a thread's share of the work begins or ends: a position in the order of all tasks and their reads.
struct TaskPosition {
  size_t task = 0;
  size_t read = 0;
};

// The tasks of one call, ordered by group of sharing sequences, KV head, query tile. A sequence that shares blocks
// never gets more tiles than it would get alone, because each additional tile would read the sequence's own blocks once
// more.
class AttentionTaskList {
 public:
  AttentionTaskList(const AttentionShape& shape, std::span<const AttentionSequence> sequences)
      : shape_(shape), sequences_(sequences), tile_tokens_(tile_tokens(shape)) {}

  // Calls visit(index, task) for each task until it returns false.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    size_t index = 0;
    for (size_t begin = 0, end = 0; begin < sequences_.size(); begin = end) {
      end = end_of_sharing(begin);
      const auto sharing = sequences_.subspan(begin, end - begin);
      for (size_t head = 0; head < shape_.n_kv_heads; ++head) {
        for (Tile tile = tile_from(sharing, 0, 0); tile.n_tokens != 0;) {
          const Tile next = tile_from(sharing, tile.end_sequence, tile.end_row);
          const AttentionTask task(shape_, sharing.subspan(tile.sequence, tile.n_sequences), head, tile.row,
                                   tile.n_tokens, next.n_tokens == 0);
          if (!visit(index++, task)) return;
          tile = next;
        }
      }
    }
  }

  // Returns where the share of thread `index` of `count` begins; index == count: the end of all tasks. All shares have
  // about the same cost. No share ends within a read (one block, loaded for all rows of a task that have the block).
  TaskPosition share_begin(int index, int count) const;

  // True if a task is divided among threads. All threads get the same result.
  bool any_split(int count) const;

 private:
  // The rows of a tile: from `row` of `sequence` up to `end_row` of `end_sequence`.
  struct Tile {
    size_t sequence = 0, row = 0;
    size_t n_sequences = 0, n_tokens = 0;
    size_t end_sequence = 0, end_row = 0;
  };
  size_t end_of_sharing(size_t begin) const;
  Tile tile_from(std::span<const AttentionSequence> sharing, size_t sequence, size_t row) const;

  const AttentionShape& shape_;
  std::span<const AttentionSequence> sequences_;
  size_t tile_tokens_;
};

}  // namespace ibid
