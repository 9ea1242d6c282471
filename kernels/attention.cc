#include "kernels/attention.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace ibid {
namespace {

// Rows of a tile: enough for the conversion of keys and values to cost next to nothing.
constexpr size_t kTileRowsWanted = 192;
// What reading a position costs, in rows that are multiplied with it. Only the balance among threads
// depends on it.
constexpr size_t kReadCost = 4;
constexpr size_t kBlockPages = kAttentionBlock / kPagePositions;

size_t group_size(const AttentionShape& shape) { return shape.n_heads / shape.n_kv_heads; }

// Tokens of a query tile; in fours where there is room, so that tiles fill whole register tiles.
size_t tile_tokens(const AttentionShape& shape) {
  const size_t fit = kTileRowsWanted / group_size(shape);
  return fit >= 4 ? fit / 4 * 4 : std::max<size_t>(fit, 1);
}

size_t rounded_up(size_t n, size_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// --- scratch

// Sizes of one thread's scratch for tiles of `rows` rows and sequences of `blocks` blocks, in bytes.
struct ScratchLayout {
  size_t rows, blocks, v_dim, head_dim;

  size_t q_bytes() const { return rows * v_dim * sizeof(float); }
  size_t ranges_bytes() const { return rounded_up(2 * rows * sizeof(size_t), 64); }
  size_t sums_bytes() const { return (2 * rounded_up(rows, 16) + rows * v_dim) * sizeof(float); }
  size_t kernel_bytes() const { return attend_scratch_bytes(rows, head_dim); }
  size_t bytes() const { return q_bytes() + ranges_bytes() + (2 + blocks) * sums_bytes() + kernel_bytes(); }
};

ScratchLayout scratch_layout(const AttentionShape& shape, size_t max_rows, size_t max_positions) {
  const size_t rows = std::min(tile_tokens(shape), max_rows) * group_size(shape);
  return {rows, rounded_up(max_positions, kAttentionBlock) / kAttentionBlock, rounded_up(shape.head_dim, 16),
          shape.head_dim};
}

// One thread's scratch.
struct Scratch {
  float* q;             // [rows, v_dim] queries of the tile, rows token by token
  size_t* row_begin;    // [rows]
  size_t* row_end;      // [rows]
  AttendSums total;     // merged blocks of the task under way
  AttendSums part;      // one block
  std::byte* kernel;
  std::byte* tails;
  ScratchLayout layout;

  Scratch(std::byte* memory, const ScratchLayout& l) : layout(l) {
    q = reinterpret_cast<float*>(memory);
    row_begin = reinterpret_cast<size_t*>(memory + l.q_bytes());
    row_end = row_begin + l.rows;
    kernel = memory + l.q_bytes() + l.ranges_bytes();
    tails = kernel + l.kernel_bytes();
    total = sums(l.blocks);
    part = sums(l.blocks + 1);
  }
  // Sums of the i-th block of a task whose first blocks another thread has.
  AttendSums sums(size_t i) const {
    auto* at = reinterpret_cast<float*>(tails + i * layout.sums_bytes());
    const size_t row_floats = rounded_up(layout.rows, 16);
    return {at, at + row_floats, at + 2 * row_floats, layout.v_dim};
  }
};

// --- tasks and their division among threads

// All rows of one query tile for one KV head; its blocks are the absolute blocks [first_block, end_block).
struct Task {
  const AttentionSequence* sequence = nullptr;
  size_t kv_head = 0;
  size_t first_row = 0;     // within the sequence's new rows
  size_t n_tokens = 0;
  size_t first_block = 0;
  size_t end_block = 0;
  size_t block_cost = 0;

  size_t blocks() const { return end_block - first_block; }
  size_t cost() const { return blocks() * block_cost; }
};

// A place in the order of all tasks and their blocks.
struct Place {
  size_t task = 0;
  size_t block = 0;         // of the task, from 0
};

size_t first_visible(const AttentionShape& shape, size_t position) {
  return shape.window != 0 && position + 1 > shape.window ? position + 1 - shape.window : 0;
}

// The tasks of one call in their order: sequence, KV head, query tile.
class TaskList {
 public:
  TaskList(const AttentionShape& shape, std::span<const AttentionSequence> sequences)
      : shape_(shape), sequences_(sequences), tile_tokens_(tile_tokens(shape)) {}

  // visit(index, task) for each task until it returns false.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    size_t index = 0;
    for (const AttentionSequence& sequence : sequences_) {
      for (size_t head = 0; head < shape_.n_kv_heads; ++head) {
        for (size_t row = 0; row < sequence.n_rows; row += tile_tokens_) {
          if (!visit(index++, make(sequence, head, row))) return;
        }
      }
    }
  }

  // Where the share of thread `index` of `count` begins: at equal parts of the cost, at a block's edge.
  // `count` itself: the end of everything.
  Place share_begin(int index, int count) const {
    size_t total = 0, n_tasks = 0;
    for_each([&](size_t, const Task& task) {
      total += task.cost();
      ++n_tasks;
      return true;
    });
    if (index == count) return {n_tasks, 0};
    const size_t wanted = total / static_cast<size_t>(count) * static_cast<size_t>(index);
    size_t before = 0;
    Place place{n_tasks, 0};
    for_each([&](size_t task_index, const Task& task) {
      if (before + task.cost() <= wanted) {
        before += task.cost();
        return true;
      }
      const size_t block = (wanted - before + task.block_cost / 2) / task.block_cost;
      place = block == task.blocks() ? Place{task_index + 1, 0} : Place{task_index, block};
      return false;
    });
    return place;
  }

  // Whether some task is divided among threads. The same on all of them.
  bool any_split(int count) const {
    for (int index = 1; index < count; ++index) {
      if (share_begin(index, count).block != 0) return true;
    }
    return false;
  }

 private:
  Task make(const AttentionSequence& sequence, size_t head, size_t row) const {
    Task task;
    task.sequence = &sequence;
    task.kv_head = head;
    task.first_row = row;
    task.n_tokens = std::min(tile_tokens_, sequence.n_rows - row);
    const size_t first = sequence.first_position + row;
    task.first_block = first_visible(shape_, first) / kAttentionBlock;
    task.end_block = (first + task.n_tokens - 1) / kAttentionBlock + 1;
    task.block_cost = kReadCost + task.n_tokens * group_size(shape_);
    return task;
  }

  const AttentionShape& shape_;
  std::span<const AttentionSequence> sequences_;
  size_t tile_tokens_;
};

// --- one thread's work

class AttentionThread {
 public:
  AttentionThread(const Kernels& kernels, const AttentionShape& shape, const KvHeadBlock& block,
                  size_t layer_offset, const float* q, float* out, size_t stride, const Scratch& scratch)
      : kernels_(kernels), shape_(shape), block_(block), layer_offset_(layer_offset), q_(q), out_(out),
        stride_(stride), group_(group_size(shape)), scratch_(scratch) {}

  // Blocks [begin, end) of a task. From its first block on they are merged as they come, and finished when
  // all are there; a later part is left in the scratch, since sums are merged in increasing order only.
  void run(const Task& task, size_t begin, size_t end) {
    load_queries(task);
    if (begin == 0) clear(scratch_.total, rows(task));
    for (size_t b = begin; b < end; ++b) {
      const AttendSums result = begin == 0 ? scratch_.part : scratch_.sums(b - begin);
      attend(task, b, end, b != begin, result);
      if (begin == 0) merge(task, result);
    }
    if (begin == 0 && end == task.blocks()) finish(task);
  }

  void merge(const Task& task, const AttendSums& part) {
    kernels_.attend_merge(scratch_.total, part, rows(task), shape_.head_dim);
  }

  // Sinks are merged as one more block, of one score and the value 0.
  void finish(const Task& task) {
    if (shape_.sinks != nullptr) {
      clear(scratch_.part, rows(task));
      for (size_t r = 0; r < rows(task); ++r) {
        scratch_.part.max[r] = shape_.sinks[task.kv_head * group_ + r % group_];
        scratch_.part.sum[r] = 1.0f;
      }
      merge(task, scratch_.part);
    }
    for (size_t r = 0; r < rows(task); ++r) {
      const float inverse = 1.0f / scratch_.total.sum[r];
      const float* from = scratch_.total.out + r * scratch_.total.out_stride;
      float* to = out_ + offset(task, r);
      for (size_t d = 0; d < shape_.head_dim; ++d) to[d] = from[d] * inverse;
    }
  }

 private:
  size_t rows(const Task& task) const { return task.n_tokens * group_; }

  // Where row r of the task lies in q and out.
  size_t offset(const Task& task, size_t r) const {
    const size_t row = task.sequence->first_row + task.first_row + r / group_;
    return row * stride_ + (task.kv_head * group_ + r % group_) * shape_.head_dim;
  }

  void clear(const AttendSums& sums, size_t n_rows) {
    std::fill_n(sums.max, n_rows, -std::numeric_limits<float>::infinity());
    std::fill_n(sums.sum, n_rows, 0.0f);
    std::fill_n(sums.out, n_rows * sums.out_stride, 0.0f);
  }

  void load_queries(const Task& task) {
    for (size_t r = 0; r < rows(task); ++r) {
      const size_t position = task.sequence->first_position + task.first_row + r / group_;
      scratch_.row_begin[r] = first_visible(shape_, position);
      scratch_.row_end[r] = position + 1;
      std::memcpy(scratch_.q + r * scratch_.layout.v_dim, q_ + offset(task, r),
                  shape_.head_dim * sizeof(float));
    }
  }

  // The head's blocks of the pages of block `block` that exist, into heads[kBlockPages]; how many.
  size_t heads_of(const Task& task, size_t kv_head, size_t block, const std::byte** heads) const {
    const size_t last_position = task.sequence->first_position + task.first_row + task.n_tokens - 1;
    const size_t n_pages = std::min(kBlockPages, last_position / kPagePositions + 1 - block * kBlockPages);
    const std::byte* const* pages = task.sequence->pages + block * kBlockPages;
    for (size_t i = 0; i < n_pages; ++i) heads[i] = pages[i] + layer_offset_ + kv_head * block_.bytes;
    return n_pages;
  }

  // What will be read after block `block` - 1 of a task: the task's next block, or the first of the next KV head.
  size_t next_heads(const Task& task, size_t block, size_t end, const std::byte** heads) const {
    if (block < end) return heads_of(task, task.kv_head, task.first_block + block, heads);
    const bool last_tile = task.first_row + task.n_tokens == task.sequence->n_rows;
    if (!last_tile || task.kv_head + 1 == shape_.n_kv_heads) return 0;
    return heads_of(task, task.kv_head + 1, task.first_block, heads);
  }

  // One block of the task, blocks [.., end) of which this thread has. `again`: it is not the first of them.
  void attend(const Task& task, size_t block, size_t end, bool again, const AttendSums& result) {
    const std::byte* heads[kBlockPages] = {};
    const std::byte* next[kBlockPages] = {};
    heads_of(task, task.kv_head, task.first_block + block, heads);
    AttendTile tile{};
    tile.heads = heads;
    tile.begin = (task.first_block + block) * kAttentionBlock;
    tile.q = scratch_.q;
    tile.q_stride = scratch_.layout.v_dim;
    tile.n_rows = rows(task);
    tile.row_begin = scratch_.row_begin;
    tile.row_end = scratch_.row_end;
    tile.scale = shape_.scale;
    tile.softcap = shape_.softcap;
    tile.same_rows = again;
    tile.next_heads = next;
    tile.n_next = next_heads(task, block + 1, end, next);
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
};

}  // namespace

size_t attend_scratch_bytes(size_t max_rows, size_t head_dim) {
  const size_t v_dim = rounded_up(head_dim, 16);
  const size_t per_pass_row = kAttentionBlock * (sizeof(float) + 2) + sizeof(float) + 2 * v_dim * sizeof(int32_t);
  const size_t keys_and_values = 2 * kAttentionBlock * v_dim * sizeof(float);
  const size_t per_row = v_dim + 2 * sizeof(float) + 2 * sizeof(size_t);
  return rounded_up(kAttendPassRows * per_pass_row + keys_and_values + rounded_up(max_rows, kAttendPassRows) * per_row,
                    64);
}

size_t attention_scratch_bytes(const AttentionShape& shape, size_t max_rows, size_t max_positions,
                               int n_threads) {
  return scratch_layout(shape, max_rows, max_positions).bytes() * static_cast<size_t>(n_threads);
}

void attention(const Worker& worker, const Kernels& kernels, const AttentionShape& shape,
               const KvHeadBlock& block, size_t layer_offset, std::span<const AttentionSequence> sequences,
               const float* q, float* out, size_t stride, std::byte* scratch) {
  size_t max_rows = 0, max_positions = 0;
  for (const AttentionSequence& sequence : sequences) {
    max_rows = std::max(max_rows, sequence.n_rows);
    max_positions = std::max(max_positions, sequence.first_position + sequence.n_rows);
  }
  const ScratchLayout layout = scratch_layout(shape, max_rows, max_positions);
  const auto scratch_of = [&](int index) {
    return Scratch(scratch + static_cast<size_t>(index) * layout.bytes(), layout);
  };
  const Scratch own = scratch_of(worker.index());
  AttentionThread thread(kernels, shape, block, layer_offset, q, out, stride, own);
  const TaskList tasks(shape, sequences);
  const Place begin = tasks.share_begin(worker.index(), worker.count());
  const Place end = tasks.share_begin(worker.index() + 1, worker.count());

  Task open;                // begun here, to be completed by later threads
  size_t open_index = 0;
  tasks.for_each([&](size_t index, const Task& task) {
    if (index < begin.task) return true;
    const size_t from = index == begin.task ? begin.block : 0;
    const size_t to = index < end.task ? task.blocks() : index == end.task ? end.block : 0;
    if (from >= to) return index < end.task;
    thread.run(task, from, to);
    if (from == 0 && to < task.blocks()) {
      open = task;
      open_index = index;
    }
    return index < end.task;
  });
  if (tasks.any_split(worker.count())) worker.barrier();

  if (open.sequence != nullptr) {
    size_t done = end.block;
    for (int other = worker.index() + 1; done < open.blocks(); ++other) {
      const Place stop = tasks.share_begin(other + 1, worker.count());
      const size_t until = stop.task == open_index ? stop.block : open.blocks();
      const Scratch theirs = scratch_of(other);
      for (size_t b = done; b < until; ++b) thread.merge(open, theirs.sums(b - done));
      done = until;
    }
    thread.finish(open);
  }
  worker.barrier();
}

}  // namespace ibid
