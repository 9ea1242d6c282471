#include "kernels/ops/attention_tasks.h"

#include <limits>

namespace ibid {
namespace {

// Target number of rows of a tile: large enough to make the cost of converting keys and values negligible.
constexpr size_t kTileRowsWanted = 192;
// Cost of loading the key and value of one position, relative to the cost of multiplying one query row with them.
// Affects only the balance among threads.
constexpr size_t kReadCost = 4;

}  // namespace

size_t first_visible(const AttentionShape& shape, size_t position) {
  return shape.window != 0 && position + 1 > shape.window ? position + 1 - shape.window : 0;
}

size_t tile_tokens(const AttentionShape& shape) {
  const size_t fit = kTileRowsWanted / (shape.n_heads / shape.n_kv_heads);
  return fit >= 4 ? fit / 4 * 4 : std::max<size_t>(fit, 1);
}

AttentionTask::AttentionTask(const AttentionShape& shape, std::span<const AttentionSequence> of, size_t head,
                             size_t row, size_t tokens, bool last)
    : sequences(of),
      kv_head(head),
      group(shape.n_heads / shape.n_kv_heads),
      first_row(row),
      n_tokens(tokens),
      first_block(first_visible(shape, of[0].first_position + row) / kAttentionBlock),
      is_last_tile(last) {
  for (size_t i = 0; i < sequences.size(); ++i) {
    const size_t first_read = i == 0 ? first_block : sequences[i].shared_blocks;
    n_reads += end_block_of(i) - first_read;
    cost += (end_position_of(i) - first_block * kAttentionBlock) * tokens_of(i) * group;
    cost += (end_position_of(i) - first_read * kAttentionBlock) * kReadCost;
  }
}

// Returns the run that starts at `block` of `sequence`. It includes the rows of the following sequences, as long as
// each shares `block` with the sequence before it.
AttentionRun AttentionTask::run_from(size_t sequence, size_t first_row_in_tile, size_t block) const {
  if (sequence == sequences.size()) return {sequence, first_row_in_tile, 0, block, block};
  AttentionRun run{sequence, first_row_in_tile, tokens_of(sequence), block, end_block_of(sequence)};
  for (size_t i = sequence + 1; i < sequences.size() && sequences[i].shared_blocks > block; ++i) {
    run.n_tokens += tokens_of(i);
    run.end_block = std::min(run.end_block, sequences[i].shared_blocks);
  }
  return run;
}

AttentionRun AttentionTask::run_after(const AttentionRun& run) const {
  if (run.sequence == sequences.size()) return run;
  if (run.end_block < end_block_of(run.sequence)) return run_from(run.sequence, run.first_row_in_tile, run.end_block);
  const size_t next = run.sequence + 1;
  const size_t block = next == sequences.size() ? 0 : sequences[next].shared_blocks;
  return run_from(next, run.first_row_in_tile + tokens_of(run.sequence), block);
}

size_t AttentionTask::read_at(size_t part) const {
  size_t read = 0;
  for (AttentionRun run = first_run(); run.blocks() != 0; run = run_after(run)) {
    const size_t position_cost = kReadCost + run.n_tokens * group, block_cost = kAttentionBlock * position_cost;
    const size_t end_position = std::min(run.end_block * kAttentionBlock, end_position_of(run.sequence));
    const size_t run_cost = (end_position - run.first_block * kAttentionBlock) * position_cost;
    if (part < run_cost) return read + (part + block_cost / 2) / block_cost;
    part -= run_cost;
    read += run.blocks();
  }
  return read;
}

TaskPosition AttentionTaskList::share_begin(int index, int count) const {
  if (index == 0) return {0, 0};
  if (index == count) return {std::numeric_limits<size_t>::max(), 0};
  size_t total = 0, n_tasks = 0;
  for_each([&](size_t, const AttentionTask& task) {
    total += task.cost;
    ++n_tasks;
    return true;
  });
  const size_t wanted = total / static_cast<size_t>(count) * static_cast<size_t>(index);
  size_t before = 0;
  TaskPosition place{n_tasks, 0};
  for_each([&](size_t task_index, const AttentionTask& task) {
    if (before + task.cost <= wanted) {
      before += task.cost;
      return true;
    }
    const size_t read = task.read_at(wanted - before);
    place = read == task.n_reads ? TaskPosition{task_index + 1, 0} : TaskPosition{task_index, read};
    return false;
  });
  return place;
}

bool AttentionTaskList::any_split(int count) const {
  for (int index = 1; index < count; ++index) {
    if (share_begin(index, count).read != 0) return true;
  }
  return false;
}

// Returns the end of the group of sequences that each share a block with the previous one. A sequence is alone in its
// group if a window hides positions from one of its rows, because few of its rows would see the shared blocks.
size_t AttentionTaskList::end_of_sharing(size_t begin) const {
  const auto sees_all = [&](const AttentionSequence& sequence) {
    return shape_.window == 0 || sequence.first_position + sequence.n_rows <= shape_.window;
  };
  size_t end = begin + 1;
  if (!sees_all(sequences_[begin])) return end;
  while (end < sequences_.size() && sequences_[end].shared_blocks != 0 && sees_all(sequences_[end])) ++end;
  return end;
}

// Returns a full tile of rows of one sequence, or its last rows and as many of the following sequences as fit
// completely.
AttentionTaskList::Tile AttentionTaskList::tile_from(std::span<const AttentionSequence> sharing, size_t sequence,
                                                     size_t row) const {
  Tile tile{sequence, row, 0, 0, sequence, row};
  if (sequence == sharing.size()) return tile;
  tile.n_sequences = 1;
  tile.n_tokens = std::min(tile_tokens_, sharing[sequence].n_rows - row);
  tile.end_row = row + tile.n_tokens;
  if (tile.end_row < sharing[sequence].n_rows) return tile;
  tile.end_row = 0;
  for (++tile.end_sequence; tile.end_sequence < sharing.size(); ++tile.end_sequence, ++tile.n_sequences) {
    const size_t n = sharing[tile.end_sequence].n_rows;
    if (tile.n_tokens + n > tile_tokens_) break;
    tile.n_tokens += n;
  }
  return tile;
}

}  // namespace ibid
