// Shared by the kernels of scores and of weighted values: visible positions of a tile's rows, scratch, register tiles
// of rows, and streams of keys and values. Included once per instruction set, by attention-inl.h.
#pragma once

#include "kernels/simd/kv_store-inl.h"

namespace ibid::IBID_ISA {
namespace {

static_assert(kTileRows == 4, "register tiles are dispatched by 1, 2, 3 or 4 rows");
static_assert(kTileRows <= kMaxAttendRows, "sizes the scratch");
constexpr size_t kScoreStride = kAttentionBlock;
constexpr float kNoScore = -__builtin_inff();

// Positions [begin, end) of the current block.
struct Span {
  size_t begin = 0;
  size_t end = 0;
};

IBID_INLINE size_t smaller(size_t a, size_t b) { return a < b ? a : b; }
IBID_INLINE size_t larger(size_t a, size_t b) { return a > b ? a : b; }
IBID_INLINE bool is_empty(Span s) { return s.begin >= s.end; }
IBID_INLINE Span intersect(Span a, Span b) { return {larger(a.begin, b.begin), smaller(a.end, b.end)}; }
// Returns the smallest span that contains a and b.
IBID_INLINE Span hull(Span a, Span b) {
  if (is_empty(a)) return b;
  if (is_empty(b)) return a;
  return {smaller(a.begin, b.begin), larger(a.end, b.end)};
}
IBID_INLINE Span page_span(size_t page) { return {page * kPagePositions, (page + 1) * kPagePositions}; }

// One thread's scratch memory for n_rows rows; attend_scratch_bytes() returns the size.
struct TileScratch {
  float* scores;  // [kAttendPassRows, 256] scores, then weights
  // Softmax weights as integers: of the rows of a pass (INT8), or of a register tile and a group of dimensions (INT4).
  uint8_t* codes;   // [kAttendPassRows, 2, 256] high and low bytes of the weights' codes
  float* step;      // [kAttendPassRows] weight of one unit of a code
  float* floors;    // [kAttendPassRows] sum of weights times minima (INT4)
  float* scaled;    // [kTileRows, 256] the weights times the scales of a group (INT4)
  int32_t* totals;  // [2, kAttendPassRows, v_dim] sums of weight bytes times values; INT4: [2, kTileRows, kNibbleGroup]
  float* keys;      // [256, head_dim] keys of the block as floats, in the layout of F32 pages
  float* values;    // [256, v_dim]
  // Queries, quantised for INT8 and INT4 keys. The numbers of a row after the first head_dim are 0.
  int8_t* q;  // [n_rows rounded up to a multiple of kAttendPassRows, q_stride]
  size_t q_stride;
  // Index 0: the first latent_dim dimensions of a latent row; 1: the rest. Other rows use index 0 only.
  float* q_scale[2];     // [n_rows]
  int32_t* q_offset[2];  // [n_rows] -128 * sum of q
  float* q_sums;         // [n_rows, nibble_groups()] sums of q by group (INT4); for latent rows, times q_scale
  Span* spans;           // [n_rows]

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
  // View of the per-row arrays starting at `row`.
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

// Consecutive rows of a register tile, and the smallest span of positions that contains those visible to each row.
struct RowTile {
  size_t first;
  size_t count;
  Span seen;
};

// Returns the register tile that begins at row `first`. It has kTileRows rows, except that the last two tiles are
// balanced, to avoid a tile of one row.
IBID_INLINE RowTile next_tile(const TileScratch& s, size_t first, size_t n_rows) {
  const size_t left = n_rows - first;
  RowTile tile{first, left, {}};
  if (left > kTileRows) tile.count = left >= 2 * kTileRows ? kTileRows : (left + 1) / 2;
  for (size_t r = 0; r < tile.count; ++r) tile.seen = hull(tile.seen, s.spans[first + r]);
  return tile;
}

IBID_INLINE V16 load_values(const float* p) { return load(p); }
IBID_INLINE V16 load_values(const uint16_t* p) { return load_f16(p); }

// The keys or values of a page, and the address of later data to prefetch to the L2 cache (may be null).
struct Stream {
  const std::byte* at;
  const std::byte* ahead;
};

// Prefetch distance in bytes, rounded up to the keys or values of whole pages. Of 12, 24, 48 and 96 KB, 12 KB was best
// for INT8; for F16 and F32 it is about as fast as 48 KB. Without prefetch, decoding after 4,096 positions took 1.1
// (F32) to 1.6 times (F16) as long (EPYC, 1 MiB L2 per core).
constexpr size_t kFetchAhead = 12288;

IBID_INLINE void fetch_ahead(const Stream& stream, size_t offset, size_t bytes) {
  if (stream.ahead == nullptr) return;
  for (size_t i = 0; i < bytes; i += 64) prefetch_l2(stream.ahead + offset + i);
}

// Returns the values of a page in the layout of V.
IBID_INLINE const std::byte* values_of(const KvHeadBlock& block, const AttendTile& tile, size_t page) {
  return (block.is_latent() ? tile.values[page] : tile.head_blocks[page]) + block.v;
}

// Converts n keys or values at `from` to floats. n is a multiple of 16.
template <typename Element>
void widen(const std::byte* from, size_t n, float* to) {
  const auto* elements = reinterpret_cast<const Element*>(from);
  for (size_t i = 0; i < n; i += 16) store(to + i, load_values(elements + i));
}

// Prefetches tile.next_head_blocks into the L2 cache, one share at each call of fetch_share(), so that large tiles,
// which compute for long, need not wait for memory when the next block begins.
class NextBlock {
 public:
  NextBlock(const KvHeadBlock& block, const AttendTile& tile, size_t n_shares)
      : tile_(tile),
        head_bytes_(block.bytes),
        share_((tile.n_next * block.bytes / 64 + n_shares - 1) / n_shares * 64) {}

  void fetch_share() {
    const size_t end = smaller(at_ + share_, tile_.n_next * head_bytes_);
    for (; at_ < end; at_ += 64) prefetch_l2(tile_.next_head_blocks[at_ / head_bytes_] + at_ % head_bytes_);
  }

 private:
  const AttendTile& tile_;
  const size_t head_bytes_;
  const size_t share_;
  size_t at_ = 0;
};

// Computes each row's span of visible positions, and clears the row's results. Returns the smallest span that contains
// all of these.
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

// Returns the part of `tile` that one pass computes: rows from `first` on.
IBID_INLINE AttendTile pass_of(const AttendTile& tile, size_t first) {
  AttendTile pass = tile;
  pass.n_rows = smaller(tile.n_rows - first, kAttendPassRows);
  pass.q += first * tile.q_stride;
  pass.result.max += first;
  pass.result.sum += first;
  pass.result.out += first * tile.result.out_stride;
  return pass;
}

// --- Sources of a block's keys and values, and prefetching

// Above this number of rows, F16 keys and values are converted to floats once; with fewer rows the conversion costs
// more than it saves.
constexpr size_t kWidenRows = 3 * kTileRows;

// The keys and values of a block's pages [first, last]: in place or, for many rows, converted to floats in the scratch,
// once for all rows.
class Operands {
 public:
  Operands(const KvHeadBlock& block, const AttendTile& tile, const TileScratch& s, size_t first, size_t last)
      : block_(block),
        tile_(tile),
        s_(s),
        first_(first),
        n_pages_(last + 1 - first),
        formats_differ_(block.keys() != block.values()),
        distance_(formats_differ_ ? n_pages_ : (kFetchAhead + block.k_scale - 1) / block.k_scale),
        keys_widened_(tile.n_rows > kWidenRows && block.keys() == KvNumberFormat::kF16),
        values_widened_(tile.n_rows > kWidenRows && block.values() == KvNumberFormat::kF16) {}

  KvNumberFormat key_type() const { return keys_widened_ ? KvNumberFormat::kF32 : block_.keys(); }
  KvNumberFormat value_type() const { return values_widened_ ? KvNumberFormat::kF32 : block_.values(); }

  // Converts all keys, but only the values of visible positions: values of other positions may have any content, even
  // NaN.
  void widen_all(Span seen) const {
    const size_t n_keys = kPagePositions * block_.head_dim, n_values = kPagePositions * block_.v_dim;
    for (size_t page = first_; keys_widened_ && page < first_ + n_pages_; ++page) {
      widen<uint16_t>(tile_.head_blocks[page] + block_.k, n_keys, s_.keys + page * n_keys);
    }
    for (size_t page = first_; values_widened_ && page < first_ + n_pages_; ++page) {
      const Span here = intersect(seen, page_span(page));
      const size_t skipped = (here.begin - page * kPagePositions) * block_.v_dim;
      widen<uint16_t>(values_of(block_, tile_, page) + skipped * sizeof(uint16_t),
                      (here.end - here.begin) * block_.v_dim, s_.values + page * n_values + skipped);
    }
  }

  // fetch: prefetch the data after these keys while they are read. REQUIRES: !fetch for latent rows.
  Stream keys(size_t page, bool fetch) const {
    if (keys_widened_) return in_scratch(s_.keys + page * kPagePositions * block_.head_dim);
    if (fetch) fetch_scales(page - first_);
    return {tile_.head_blocks[page] + block_.k, fetch ? part(page - first_ + distance_) : nullptr};
  }
  Stream values(size_t page, bool fetch) const {
    if (values_widened_) return in_scratch(s_.values + page * kPagePositions * block_.v_dim);
    return {values_of(block_, tile_, page), fetch ? part(n_pages_ + page - first_ + distance_) : nullptr};
  }

  // Bytes to prefetch per byte of values read. With INT8 keys, which are twice as long as INT4 values, two are needed:
  // with one, a decoding thread waited for every other line and took 1.2 to 1.4 times as long.
  size_t ahead_of_values() const { return formats_differ_ ? 2 : 1; }

 private:
  static Stream in_scratch(const float* p) { return {reinterpret_cast<const std::byte*>(p), nullptr}; }

  // Returns the i-th address in reading order: the keys of the block's pages, the values of these pages, then the same
  // of the next block.
  const std::byte* part(size_t i) const {
    if (i < n_pages_) return tile_.head_blocks[first_ + i] + block_.k;
    i -= n_pages_;
    if (i < n_pages_) return tile_.head_blocks[first_ + i] + block_.v;
    i -= n_pages_;
    if (i < tile_.n_next) return tile_.next_head_blocks[i] + block_.k;
    i -= tile_.n_next;
    return i < tile_.n_next ? tile_.next_head_blocks[i] + block_.v : nullptr;
  }

  // Prefetches scales a whole block ahead: scales are outside the streams of codes, and are needed before the values.
  void fetch_scales(size_t i) const {
    if (i >= tile_.n_next) return;
    const std::byte* head = tile_.next_head_blocks[i];
    for (size_t at = block_.k_scale; at < block_.v; at += 64) prefetch_l2(head + at);
    for (size_t at = block_.v_scale; at < block_.bytes; at += 64) prefetch_l2(head + at);
  }

  const KvHeadBlock& block_;
  const AttendTile& tile_;
  const TileScratch& s_;
  const size_t first_, n_pages_;
  const bool formats_differ_;  // formats of keys and values differ: reading keys prefetches values, and vice versa
  const size_t distance_;      // prefetch distance: the keys or values of this number of pages
  const bool keys_widened_, values_widened_;
};

}  // namespace
}  // namespace ibid::IBID_ISA
