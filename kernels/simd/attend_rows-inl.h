// What the two halves of attention share: which positions the rows of a tile see, the scratch, register tiles of
// rows, and the streams of keys and values. Included once per instruction set, by attention-inl.h.
#pragma once

#include "kernels/simd/kv_store-inl.h"

namespace ibid::IBID_ISA {
namespace {

static_assert(kTileRows == 4, "register tiles are dispatched by 1, 2, 3 or 4 rows");
static_assert(kTileRows <= kMaxAttendRows, "sizes the scratch");
constexpr size_t kScoreStride = kAttentionBlock;
constexpr float kNoScore = -__builtin_inff();

// Positions [begin, end) of the block.
struct Span {
  size_t begin = 0;
  size_t end = 0;
};

IBID_INLINE size_t smaller(size_t a, size_t b) { return a < b ? a : b; }
IBID_INLINE size_t larger(size_t a, size_t b) { return a > b ? a : b; }
IBID_INLINE bool is_empty(Span s) { return s.begin >= s.end; }
IBID_INLINE Span intersect(Span a, Span b) { return {larger(a.begin, b.begin), smaller(a.end, b.end)}; }
// The smallest span that holds both.
IBID_INLINE Span hull(Span a, Span b) {
  if (is_empty(a)) return b;
  if (is_empty(b)) return a;
  return {smaller(a.begin, b.begin), larger(a.end, b.end)};
}
IBID_INLINE Span page_span(size_t page) { return {page * kPagePositions, (page + 1) * kPagePositions}; }

// A thread's scratch for n_rows rows; attend_scratch_bytes() is its size.
struct TileScratch {
  float* scores;      // [kAttendPassRows, 256] scores, then weights
  // Weights of values that are codes: of a pass (INT8), or of a register tile and a group of dimensions (INT4).
  uint8_t* codes;     // [kAttendPassRows, 2, 256] the weights' high and low bytes
  float* step;        // [kAttendPassRows] what a code counts
  float* floors;      // [kAttendPassRows] what the minima add up to (INT4)
  float* scaled;      // [kTileRows, 256] the weights times the scales of a group (INT4)
  int32_t* totals;    // [2, kAttendPassRows, v_dim] sums of values by the digits; INT4: [2, kTileRows, kNibbleGroup]
  float* keys;        // [256, head_dim] of the block as floats, in the order of F32 pages
  float* values;      // [256, v_dim]
  int8_t* q;          // [n_rows rounded up to passes, q_stride] quantised queries (INT8, INT4), 0 behind head_dim
  size_t q_stride;
  // Of both parts of latent rows; of others of the first only.
  float* q_scale[2];     // [n_rows]
  int32_t* q_offset[2];  // [n_rows] -128 * sum of q
  float* q_sums;      // [n_rows, nibble_groups()] sums of q over each group of dimensions (INT4); of latent rows times
                      // q_scale
  Span* spans;        // [n_rows]

  TileScratch(std::byte* memory, size_t n_rows, const KvHeadBlock& block) {
    scores = reinterpret_cast<float*>(memory);
    codes = reinterpret_cast<uint8_t*>(scores + kAttendPassRows * kScoreStride);
    const size_t groups = block.nibble_groups();
    step = reinterpret_cast<float*>(codes + kAttendPassRows * 2 * kAttentionBlock);
    floors = step + kAttendPassRows;
    scaled = floors + kAttendPassRows;
    totals = reinterpret_cast<int32_t*>(scaled + kTileRows * kAttentionBlock);
    keys = reinterpret_cast<float*>(totals + 2 * kAttendPassRows * block.v_dim);
    values = keys + kAttentionBlock * larger(block.head_dim, block.v_dim);
    q = reinterpret_cast<int8_t*>(values + kAttentionBlock * block.v_dim);
    q_stride = larger(block.k_dim, block.v_dim);
    const size_t padded = (n_rows + kAttendPassRows - 1) / kAttendPassRows * kAttendPassRows;
    q_scale[0] = reinterpret_cast<float*>(q + padded * q_stride);
    q_scale[1] = q_scale[0] + padded;
    q_offset[0] = reinterpret_cast<int32_t*>(q_scale[1] + padded);
    q_offset[1] = q_offset[0] + padded;
    q_sums = reinterpret_cast<float*>(q_offset[1] + padded);
    spans = reinterpret_cast<Span*>(q_sums + padded * groups);
  }
  // What belongs to the rows from `row` on.
  TileScratch from(size_t row, size_t nibble_groups) const {
    TileScratch part = *this;
    part.q_sums += row * nibble_groups;
    part.q += row * q_stride;
    for (size_t i = 0; i < 2; ++i) {
      part.q_scale[i] += row;
      part.q_offset[i] += row;
    }
    part.spans += row;
    return part;
  }
};

// Consecutive rows of a register tile, and the hull of what they see.
struct RowTile {
  size_t first;
  size_t count;
  Span seen;
};

// Of the rows from `first`: as many as fill the registers, and no lone row left behind where two even tiles
// will do.
IBID_INLINE RowTile next_tile(const TileScratch& s, size_t first, size_t n_rows) {
  const size_t left = n_rows - first;
  RowTile tile{first, left, {}};
  if (left > kTileRows) tile.count = left >= 2 * kTileRows ? kTileRows : (left + 1) / 2;
  for (size_t r = 0; r < tile.count; ++r) tile.seen = hull(tile.seen, s.spans[first + r]);
  return tile;
}

IBID_INLINE V16 load_values(const float* p) { return load(p); }
IBID_INLINE V16 load_values(const uint16_t* p) { return load_f16(p); }

// The keys or the values of a page, and what will be read some time after them, which is asked for meanwhile, into the
// second-level cache; null: nothing is.
struct Stream {
  const std::byte* at;
  const std::byte* ahead;
};

// How far ahead to fetch, rounded up to whole pages' keys or values. Of 12, 24, 48 and 96 KB the least was the best for
// INT8, and F16 and F32 hardly tell it from 48. Without any, decoding behind 4,096 positions took 1.1 (F32) to 1.6
// times (F16) as long (an EPYC with 1 MiB a core).
constexpr size_t kFetchAhead = 12288;

IBID_INLINE void fetch_ahead(const Stream& stream, size_t offset, size_t bytes) {
  if (stream.ahead == nullptr) return;
  for (size_t i = 0; i < bytes; i += 64) prefetch_l2(stream.ahead + offset + i);
}

// The values of a page in the order of V.
IBID_INLINE const std::byte* values_of(const KvHeadBlock& block, const AttendTile& tile, size_t page) {
  return (block.is_latent() ? tile.values[page] : tile.heads[page]) + block.v;
}

// Floats of n of the keys or values at `from`; n is a multiple of 16.
template <typename Element>
void widen(const std::byte* from, size_t n, float* to) {
  const auto* elements = reinterpret_cast<const Element*>(from);
  for (size_t i = 0; i < n; i += 16) store(to + i, load_values(elements + i));
}

// Brings what is read next into the second-level cache, a share at a time, so that a tile of many rows, which
// computes for long, does not wait for memory in between.
class NextBlock {
 public:
  NextBlock(const KvHeadBlock& block, const AttendTile& tile, size_t n_shares)
      : tile_(tile),
        head_bytes_(block.bytes),
        share_((tile.n_next * block.bytes / 64 + n_shares - 1) / n_shares * 64) {}

  void fetch_share() {
    const size_t end = smaller(at_ + share_, tile_.n_next * head_bytes_);
    for (; at_ < end; at_ += 64) prefetch_l2(tile_.next_heads[at_ / head_bytes_] + at_ % head_bytes_);
  }

 private:
  const AttendTile& tile_;
  const size_t head_bytes_;
  const size_t share_;
  size_t at_ = 0;
};

// The spans of all rows, their hull, and results of nothing seen.
Span begin_rows(const KvHeadBlock& block, const AttendTile& tile, const TileScratch& s) {
  Span seen;
  for (size_t row = 0; row < tile.n_rows; ++row) {
    const size_t end = smaller(tile.row_end[row], tile.begin + kAttentionBlock);
    const size_t begin = larger(tile.row_begin[row], tile.begin);
    s.spans[row] = begin < end ? Span{begin - tile.begin, end - tile.begin} : Span{};
    seen = hull(seen, s.spans[row]);
    float* out = tile.result.out + row * tile.result.out_stride;
    for (size_t d = 0; d < block.v_dim; d += 16) storeu(out + d, zero());
    tile.result.max[row] = kNoScore;
    tile.result.sum[row] = 0.0f;
  }
  return seen;
}

// The rows of `tile` from `first` on that one pass takes.
IBID_INLINE AttendTile pass_of(const AttendTile& tile, size_t first) {
  AttendTile pass = tile;
  pass.n_rows = smaller(tile.n_rows - first, kAttendPassRows);
  pass.q += first * tile.q_stride;
  pass.result.max += first;
  pass.result.sum += first;
  pass.result.out += first * tile.result.out_stride;
  return pass;
}

}  // namespace
}  // namespace ibid::IBID_ISA
