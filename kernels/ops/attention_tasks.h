// How one call of attention() is cut into tasks, and the tasks into equal shares. Only attention.cc uses it.
//
// A task is a query tile for one KV head: rows of one sequence, or of several that begin with the same pages. It is a
// list of reads: each reads one block, once, for those rows of the tile that have it. In the order of the reads every
// row meets its own blocks in increasing order. Tasks may be divided among threads between any two reads.
//
// What the sequences of a tile share is a tree, written as its sequences in depth-first order and how many blocks each
// shares with the one in front of it. The first sequence of a tile has a read for each of its blocks. Each later one
// has reads only for the blocks that no sequence before it has. Reads stand in that order.
#pragma once

#include <algorithm>
#include <span>

#include "kernels/ops/attention.h"

namespace ibid {

// Consecutive reads for the same rows: blocks [first_block, end_block) of one sequence's pages.
struct AttentionRun {
  size_t sequence = 0;      // of the task: the first one that has them
  size_t first_token = 0;   // of the tile
  size_t n_tokens = 0;
  size_t first_block = 0;
  size_t end_block = 0;

  size_t blocks() const { return end_block - first_block; }
};

class AttentionTask {
 public:
  AttentionTask() = default;
  // A tile of n_tokens rows of `sequences`: of the first one those from first_row on, of the others all. Of one
  // sequence alone the rows may end early. REQUIRES: with several sequences, no row is beyond the window.
  AttentionTask(const AttentionShape& shape, std::span<const AttentionSequence> sequences, size_t kv_head,
                size_t first_row, size_t n_tokens, bool is_last_tile);

  bool empty() const { return sequences.empty(); }
  size_t n_rows() const { return n_tokens * group; }

  // Of the i-th sequence: rows in the tile, the first of them in the pass, and its position.
  size_t tokens_of(size_t i) const {
    if (i != 0) return sequences[i].n_rows;
    return sequences.size() == 1 ? n_tokens : sequences[0].n_rows - first_row;
  }
  size_t row_of(size_t i) const { return sequences[i].first_row + (i == 0 ? first_row : 0); }
  size_t position_of(size_t i) const { return sequences[i].first_position + (i == 0 ? first_row : 0); }
  size_t end_position_of(size_t i) const { return position_of(i) + tokens_of(i); }
  size_t end_block_of(size_t i) const { return (end_position_of(i) - 1) / kAttentionBlock + 1; }

  // Runs in the order of the reads; behind the last one comes one without blocks.
  AttentionRun first_run() const { return run_from(0, 0, first_block); }
  AttentionRun run_after(const AttentionRun& run) const;

  // visit(run, from, to) for the blocks [from, to) of each run that are among the reads [begin, end).
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

  // The read before which `part` of cost() has been spent, as nearly as can be.
  size_t read_at(size_t part) const;

  std::span<const AttentionSequence> sequences;
  size_t kv_head = 0;
  size_t group = 1;             // query heads of the KV head
  size_t first_row = 0;         // of the first sequence
  size_t n_tokens = 0;
  size_t first_block = 0;       // that some row sees
  size_t n_reads = 0;
  size_t cost = 0;              // positions read and multiplied, by which threads share the work
  bool is_last_tile = true;     // no other reads the same pages of this KV head

 private:
  AttentionRun run_from(size_t sequence, size_t first_token, size_t block) const;
};

// The first position that the row at `position` sees.
size_t first_visible(const AttentionShape& shape, size_t position);

// Tokens of a query tile; in fours where there is room, so that tiles fill whole register tiles.
size_t tile_tokens(const AttentionShape& shape);

// A place in the order of all tasks and their reads.
struct AttentionPlace {
  size_t task = 0;
  size_t read = 0;
};

// The tasks of one call in their order: sequences that share, KV head, query tile. A sequence is in as many tiles as if
// it were alone, so that what it does not share is not read more often.
class AttentionTaskList {
 public:
  AttentionTaskList(const AttentionShape& shape, std::span<const AttentionSequence> sequences)
      : shape_(shape), sequences_(sequences), tile_tokens_(tile_tokens(shape)) {}

  // visit(index, task) for each task until it returns false.
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

  // Where the share of thread `index` of `count` begins: at equal parts of the cost, between two reads.
  // `count` itself: behind everything.
  AttentionPlace share_begin(int index, int count) const;

  // Whether some task is divided among threads. The same on all of them.
  bool any_split(int count) const;

 private:
  // Rows of a tile: from `row` of `sequence` on, up to `end_row` of `end_sequence`.
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
