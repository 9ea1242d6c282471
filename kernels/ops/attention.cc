#include "kernels/ops/attention.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/checked.h"
#include "kernels/layout/kv_head_block.h"
#include "kernels/ops/attention_tasks.h"

namespace ibid {
namespace {

constexpr size_t kBlockPages = kAttentionBlock / kPagePositions;

size_t group_size(const AttentionShape& shape) { return shape.n_heads / shape.n_kv_heads; }

// Sizes in bytes of one thread's scratch, for tiles of `rows` rows and sequences of `blocks` blocks.
struct ScratchLayout {
  size_t rows, blocks, q_dim, v_dim, head_dim;
  bool latent;

  size_t q_bytes() const { return rows * q_dim * sizeof(float); }
  size_t places_bytes() const { return round_up(3 * rows * sizeof(size_t), 64); }
  size_t sums_bytes(size_t n) const { return (2 * round_up(n, 16) + n * v_dim) * sizeof(float); }
  // Maximum number of results that a thread leaves for another thread to merge: one per row of a tile and block.
  size_t tail_rows() const { return rows * blocks; }
  size_t kernel_bytes() const { return attend_scratch_bytes(rows, head_dim); }
  size_t value_bytes() const { return latent ? kAttentionBlock * v_dim * sizeof(float) : 0; }  // F32 is the largest
  size_t bytes() const {
    return round_up(q_bytes(), 64) + places_bytes() + kernel_bytes() + value_bytes() + 2 * sums_bytes(rows) +
           sums_bytes(tail_rows());
  }
};

ScratchLayout scratch_layout(const AttentionShape& shape, size_t max_rows, size_t max_positions) {
  const size_t rows = std::min(tile_tokens(shape), max_rows) * group_size(shape);
  const bool latent = shape.latent_dim != 0;
  return {rows,
          round_up(max_positions, kAttentionBlock) / kAttentionBlock,
          round_up(shape.head_dim, 16),
          round_up(latent ? shape.latent_dim : shape.head_dim, 16),
          shape.head_dim,
          latent};
}

AttendSums from_row(const AttendSums& sums, size_t row) {
  return {sums.max + row, sums.sum + row, sums.out + row * sums.out_stride, sums.out_stride};
}

// One thread's scratch memory. Rows of a tile are ordered by sequence, then by token.
struct Scratch {
  float* q;           // [rows, q_dim] queries
  size_t* row_begin;  // [rows] first position visible to the row
  size_t* row_end;    // [rows]
  size_t* offset;     // [rows] offset of the row's head in the arrays q and out of the pass
  AttendSums total;   // [rows] merged results of the current task
  AttendSums part;    // [rows] result of one read
  AttendSums tail;    // [tail_rows] results of a task that another thread began, which merges them
  std::byte* values;  // latent rows: the block's values, as written by Kernels::latent_values
  std::byte* kernel;
  ScratchLayout layout;

  Scratch(std::byte* memory, const ScratchLayout& l) : layout(l) {
    q = reinterpret_cast<float*>(memory);
    row_begin = reinterpret_cast<size_t*>(memory + round_up(l.q_bytes(), 64));
    row_end = row_begin + l.rows;
    offset = row_end + l.rows;
    values = memory + round_up(l.q_bytes(), 64) + l.places_bytes();
    kernel = values + l.value_bytes();
    std::byte* at = kernel + l.kernel_bytes();
    total = sums(at, l.rows);
    part = sums(at += l.sums_bytes(l.rows), l.rows);
    tail = sums(at += l.sums_bytes(l.rows), l.tail_rows());
  }

 private:
  AttendSums sums(std::byte* memory, size_t n) const {
    auto* at = reinterpret_cast<float*>(memory);
    const size_t row_floats = round_up(n, 16);
    return {at, at + row_floats, at + 2 * row_floats, layout.v_dim};
  }
};

// --- one thread's work

class AttentionThread {
 public:
  AttentionThread(const Kernels& kernels, const AttentionShape& shape, const KvHeadBlock& block, size_t layer_offset,
                  const float* q, float* out, size_t stride, const Scratch& scratch)
      : kernels_(kernels),
        shape_(shape),
        block_(block),
        layer_offset_(layer_offset),
        q_(q),
        out_(out),
        stride_(stride),
        group_(group_size(shape)),
        scratch_(scratch) {
    for (size_t i = 0; i < kBlockPages; ++i) values_[i] = scratch.values + i * value_order(block).bytes();
  }

  // Computes reads [begin, end) of a task; a read is one block for all rows that see it (attention_tasks.h). The
  // results of a task are merged in the order of its reads. If begin is 0, this function merges each result at once
  // (and finishes the task if the task ends at `end`); otherwise it leaves the results in the scratch for merge_tail().
  void run(const AttentionTask& task, size_t begin, size_t end) {
    load_queries(task);
    if (begin == 0) clear(scratch_.total, task.n_rows());
    size_t tail_row = 0;
    task.for_each_run(begin, end, [&](const AttentionRun& run, size_t from, size_t to) {
      for (size_t b = from; b < to; ++b) {
        const AttendSums result = begin == 0 ? scratch_.part : from_row(scratch_.tail, tail_row);
        attend(task, run, b, to, b != from, result);
        if (begin == 0) {
          merge(run, result);
        } else {
          tail_row += run.n_tokens * group_;
        }
      }
    });
    if (begin == 0 && end == task.n_reads) finish(task);
  }

  // Merges the results of reads [begin, end), which another thread left in its scratch, into this thread's task.
  void merge_tail(const AttentionTask& task, size_t begin, size_t end, const Scratch& theirs) {
    size_t tail_row = 0;
    task.for_each_run(begin, end, [&](const AttentionRun& run, size_t from, size_t to) {
      for (size_t b = from; b < to; ++b, tail_row += run.n_tokens * group_) merge(run, from_row(theirs.tail, tail_row));
    });
  }

  // Merges the sinks as one more block, with one score and the value 0; then normalises, and writes the rows to `out`.
  void finish(const AttentionTask& task) {
    if (shape_.sinks != nullptr) {
      clear(scratch_.part, task.n_rows());
      for (size_t r = 0; r < task.n_rows(); ++r) {
        scratch_.part.max[r] = shape_.sinks[task.kv_head * group_ + r % group_];
        scratch_.part.sum[r] = 1.0f;
      }
      kernels_.attend_merge(scratch_.total, scratch_.part, task.n_rows(), block_.value_dim());
    }
    for (size_t r = 0; r < task.n_rows(); ++r) {
      const float inverse = 1.0f / scratch_.total.sum[r];
      float* row = scratch_.total.out + r * scratch_.total.out_stride;  // in the CPU cache, unlike `out`
      kernels_.scale(row, inverse, block_.value_dim());
      if (is_coded(block_.values())) kernels_.hadamard(row, block_.value_dim());
      std::memcpy(out_ + scratch_.offset[r], row, block_.value_dim() * sizeof(float));
    }
  }

 private:
  void merge(const AttentionRun& run, const AttendSums& part) {
    kernels_.attend_merge(from_row(scratch_.total, run.first_row_in_tile * group_), part, run.n_tokens * group_,
                          block_.value_dim());
  }

  void clear(const AttendSums& sums, size_t n_rows) {
    std::fill_n(sums.max, n_rows, -std::numeric_limits<float>::infinity());
    std::fill_n(sums.sum, n_rows, 0.0f);
    std::fill_n(sums.out, n_rows * sums.out_stride, 0.0f);
  }

  void load_queries(const AttentionTask& task) {
    size_t r = 0;
    for (size_t i = 0; i < task.sequences.size(); ++i) {
      for (size_t token = 0; token < task.tokens_of(i); ++token) {
        const size_t position = task.position_of(i) + token;
        for (size_t g = 0; g < group_; ++g, ++r) {
          scratch_.row_begin[r] = first_visible(shape_, position);
          scratch_.row_end[r] = position + 1;
          scratch_.offset[r] = (task.row_of(i) + token) * stride_ + (task.kv_head * group_ + g) * shape_.head_dim;
          float* query = scratch_.q + r * scratch_.layout.q_dim;
          std::memcpy(query, q_ + scratch_.offset[r], shape_.head_dim * sizeof(float));
          if (is_coded(block_.keys())) rotate_query(query);
        }
      }
    }
  }

  // Hadamard-transforms a query; for latent rows the first latent_dim dimensions and the rest separately.
  void rotate_query(float* query) const {
    kernels_.hadamard(query, block_.value_dim());
    const size_t rest = block_.head_dim - block_.value_dim();
    if (rest != 0) kernels_.hadamard(query + block_.value_dim(), rest);
  }

  // Block `block` of a sequence consists of kBlockPages pages, of which the last may not exist yet. Writes the address
  // of KV head `kv_head` in each existing page to `heads`; returns the number of these pages.
  size_t head_blocks_of(const AttentionTask& task, size_t kv_head, size_t sequence, size_t block,
                        const std::byte** head_blocks) const {
    const size_t last_position = task.position_of(sequence) + task.tokens_of(sequence) - 1;
    const size_t n_pages = std::min(kBlockPages, last_position / kPagePositions + 1 - block * kBlockPages);
    const std::byte* const* pages = task.sequences[sequence].pages + block * kBlockPages;
    for (size_t i = 0; i < n_pages; ++i) head_blocks[i] = pages[i] + layer_offset_ + kv_head * block_.bytes;
    return n_pages;
  }

  // Finds the block that this thread will read next, for prefetching: block `block` of the run, otherwise the first
  // block of the next run, otherwise that of the next KV head. Writes its addresses to `heads` as head_blocks_of()
  // does, and returns their number; 0 if no block follows.
  size_t next_head_blocks(const AttentionTask& task, const AttentionRun& run, size_t block, size_t end,
                          const std::byte** head_blocks) const {
    if (block < end) return head_blocks_of(task, task.kv_head, run.sequence, block, head_blocks);
    const AttentionRun next = task.run_after(run);
    if (next.blocks() != 0) return head_blocks_of(task, task.kv_head, next.sequence, next.first_block, head_blocks);
    if (!task.is_last_tile || task.kv_head + 1 == shape_.n_kv_heads) return 0;
    return head_blocks_of(task, task.kv_head + 1, 0, task.first_block, head_blocks);
  }

  // Computes attention over one block of a run; this thread computes the blocks before `end`. again: this thread has
  // already computed another block of the run.
  void attend(const AttentionTask& task, const AttentionRun& run, size_t block, size_t end, bool again,
              const AttendSums& result) {
    const size_t first_row = run.first_row_in_tile * group_;
    const std::byte* head_blocks[kBlockPages] = {};
    const std::byte* next[kBlockPages] = {};
    const size_t n_pages = head_blocks_of(task, task.kv_head, run.sequence, block, head_blocks);
    for (size_t i = 0; block_.is_latent() && i < n_pages; ++i)
      kernels_.latent_values(block_, head_blocks[i], values_[i]);
    AttendTile tile{};
    tile.head_blocks = head_blocks;
    tile.values = values_;
    tile.begin = block * kAttentionBlock;
    tile.q = scratch_.q + first_row * scratch_.layout.q_dim;
    tile.q_stride = scratch_.layout.q_dim;
    tile.n_rows = run.n_tokens * group_;
    tile.row_begin = scratch_.row_begin + first_row;
    tile.row_end = scratch_.row_end + first_row;
    tile.scale = shape_.scale;
    tile.softcap = shape_.softcap;
    tile.same_rows = again;
    tile.next_head_blocks = next;
    tile.n_next = next_head_blocks(task, run, block + 1, end, next);
    tile.result = result;
    kernels_.attend_tile(block_, tile, scratch_.kernel);
  }

  const Kernels& kernels_;
  const AttentionShape& shape_;
  const KvHeadBlock& block_;
  const size_t layer_offset_;
  const float* const q_;
  float* const out_;
  const size_t stride_;
  const size_t group_;
  const Scratch& scratch_;
  std::byte* values_[kBlockPages];
};

}  // namespace

size_t attend_scratch_bytes(size_t max_rows, size_t head_dim) {
  const size_t v_dim = round_up(head_dim, 16);
  const size_t n_groups = round_up(head_dim, kNibbleGroup) / kNibbleGroup;
  const size_t per_pass_row =
      kAttentionBlock * sizeof(float) + 2 * (kAttentionBlock + sizeof(float)) + 2 * v_dim * sizeof(int32_t);
  const size_t keys_and_values = 2 * kAttentionBlock * v_dim * sizeof(float);
  const size_t per_row = n_groups * (kNibbleGroup + sizeof(float)) + 4 * sizeof(float) + 2 * sizeof(size_t);
  const size_t scaled = kMaxAttendRows * kAttentionBlock * sizeof(float);
  const size_t per_pass = kAttendPassRows * per_pass_row + scaled + keys_and_values;
  return round_up(per_pass + round_up(max_rows, kAttendPassRows) * per_row, 64);
}

size_t attention_scratch_bytes(const AttentionShape& shape, size_t max_rows, size_t max_positions, int n_threads) {
  return scratch_layout(shape, max_rows, max_positions).bytes() * static_cast<size_t>(n_threads);
}

void attention(const Worker& worker, const Kernels& kernels, const AttentionShape& shape, const KvHeadBlock& block,
               size_t layer_offset, std::span<const AttentionSequence> sequences, const float* q, float* out,
               size_t stride, std::byte* scratch) {
  size_t n_rows = 0, max_positions = 0;
  for (const AttentionSequence& sequence : sequences) {
    n_rows += sequence.n_rows;
    max_positions = std::max(max_positions, sequence.first_position + sequence.n_rows);
  }
  const ScratchLayout layout = scratch_layout(shape, n_rows, max_positions);
  const auto scratch_of = [&](int index) {
    return Scratch(scratch + static_cast<size_t>(index) * layout.bytes(), layout);
  };
  const Scratch own = scratch_of(worker.index());
  AttentionThread thread(kernels, shape, block, layer_offset, q, out, stride, own);
  const AttentionTaskList tasks(shape, sequences);
  const TaskPosition begin = tasks.share_begin(worker.index(), worker.count());
  const TaskPosition end = tasks.share_begin(worker.index() + 1, worker.count());

  AttentionTask open;  // the task that this thread began, if other threads do its later reads
  size_t open_index = 0;
  tasks.for_each([&](size_t index, const AttentionTask& task) {
    if (index < begin.task) return true;
    const size_t from = index == begin.task ? begin.read : 0;
    const size_t to = index < end.task ? task.n_reads : index == end.task ? end.read : 0;
    if (from >= to) return index < end.task;
    thread.run(task, from, to);
    if (from == 0 && to < task.n_reads) {
      open = task;
      open_index = index;
    }
    return index < end.task;
  });
  if (tasks.any_split(worker.count())) worker.barrier();

  if (!open.empty()) {
    size_t done = end.read;
    for (int other = worker.index() + 1; done < open.n_reads; ++other) {
      const TaskPosition stop = tasks.share_begin(other + 1, worker.count());
      const size_t until = stop.task == open_index ? stop.read : open.n_reads;
      thread.merge_tail(open, done, until, scratch_of(other));
      done = until;
    }
    thread.finish(open);
  }
  worker.barrier();
}

namespace {

// --- reads that sequences share

// Number of full blocks before a sequence's new rows. Without a window they are visible to all of its new rows.
size_t full_blocks(const AttentionSequence& sequence) {
  return sequence.n_rows == 0 ? 0 : sequence.first_position / kAttentionBlock;
}

// Number of leading blocks whose pages a and b share. REQUIRES: they share the first `known` blocks.
size_t common_blocks(const AttentionSequence& a, const AttentionSequence& b, size_t known) {
  const size_t limit = std::min(full_blocks(a), full_blocks(b));
  size_t n = known;
  const auto same = [&](size_t block) {
    const std::byte* const* pages = a.pages + block * kBlockPages;
    return std::equal(pages, pages + kBlockPages, b.pages + block * kBlockPages);
  };
  while (n < limit && same(n)) ++n;
  return n;
}

// Index at which a sequence is inserted into the sorted batch, and the number of blocks that it shares with the
// sequence before it.
struct Position {
  size_t index = 0;
  size_t shared_with_previous = 0;
};

// Returns where to insert `sequence` into the list: after the last sequence with which it shares the most blocks. In
// the loop `shared` is the number of blocks that `sequence` shares with in_order[i - 1]. If in_order[i] shares fewer
// with in_order[i - 1], the position is i. If in_order[i] shares more, it also shares `shared` blocks with `sequence`.
// If it shares equally many, blocks are compared from number `shared` on. So only the first differing block is compared
// twice.
Position position_of(const AttentionSequence& sequence, std::span<const AttentionSequence> in_order) {
  if (in_order.empty()) return {};
  size_t shared = common_blocks(in_order[0], sequence, 0);
  for (size_t i = 1; i < in_order.size(); ++i) {
    if (in_order[i].shared_blocks < shared) return {i, shared};
    if (in_order[i].shared_blocks == shared) shared = common_blocks(in_order[i], sequence, shared);
  }
  return {in_order.size(), shared};
}

}  // namespace

void share_blocks(std::span<AttentionSequence> sequences) {
  for (size_t n = 0; n < sequences.size(); ++n) {
    const Position to = position_of(sequences[n], sequences.first(n));
    sequences[n].shared_blocks = to.shared_with_previous;  // shared_blocks of the next sequence stays valid
    const auto begin = sequences.begin();
    std::rotate(begin + static_cast<std::ptrdiff_t>(to.index), begin + static_cast<std::ptrdiff_t>(n),
                begin + static_cast<std::ptrdiff_t>(n) + 1);
  }
}

}  // namespace ibid
