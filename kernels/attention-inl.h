// Attention of some query rows over one block of 256 positions. Included after vec_<isa>.h, once per
// instruction set; ref_attention.cc is the scalar twin and kernels.h states the formulas.
//
// Scores:  lanes are 16 positions of a key group; tiles of up to kTileRows rows x kTilePanels groups
// Softmax: lanes are 16 positions
// Values:  lanes are 16 dimensions; tiles of up to kTileRows rows x kTilePanels vectors
//
// However rows are tiled, every sum is one accumulator in one order. Scores of positions that a row does not
// see are computed along with the others and replaced by -inf; their values are never multiplied at all.
#pragma once

#include "kernels/kv_store-inl.h"
#include "kernels/ref.h"

namespace ibid::IBID_ISA {
namespace {

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
  float* scores;      // [n_rows, 256] scores, then weights
  float* page;        // [64, v_dim] keys or values of a page as floats
  int8_t* q;          // [n_rows, q_stride] quantised queries (INT8)
  size_t q_stride;
  float* q_scale;     // [n_rows]
  int32_t* q_offset;  // [n_rows] -128 * sum of q
  Span* spans;        // [n_rows]

  TileScratch(std::byte* memory, size_t n_rows, const KvHeadBlock& block) {
    scores = reinterpret_cast<float*>(memory);
    page = scores + n_rows * kScoreStride;
    q = reinterpret_cast<int8_t*>(page + kPagePositions * block.v_dim);
    q_stride = block.v_dim;
    q_scale = reinterpret_cast<float*>(q + n_rows * q_stride);
    q_offset = reinterpret_cast<int32_t*>(q_scale + n_rows);
    spans = reinterpret_cast<Span*>(q_offset + n_rows);
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
IBID_INLINE V16 load_values(const int8_t* p) { return to_float(load_i8(p)); }

IBID_INLINE void prefetch_bytes(const void* p, size_t offset, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 64) prefetch(static_cast<const char*>(p) + offset + i);
}

// --- scores

// scores[r][16 g + lane] = dot of row r with the keys of group g. `ahead`: the same keys of the page that
// comes next, or these where none does.
template <size_t kRows, typename Key>
IBID_INLINE void score_floats(const Key* keys, const Key* ahead, const float* q, size_t q_stride,
                              size_t head_dim, float* scores) {
  V16 acc[kRows][kTilePanels];
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t g = 0; g < kTilePanels; ++g) acc[r][g] = zero();
  }
  for (size_t d = 0; d < head_dim; ++d) {
    constexpr size_t kStep = kTilePanels * kKeyGroup * sizeof(Key);
    prefetch_bytes(ahead, d * kStep, kStep);
    V16 key[kTilePanels];
    for (size_t g = 0; g < kTilePanels; ++g) key[g] = load_values(keys + (g * head_dim + d) * kKeyGroup);
    for (size_t r = 0; r < kRows; ++r) {
      const V16 x = set1(q[r * q_stride + d]);
      for (size_t g = 0; g < kTilePanels; ++g) acc[r][g] = fma(x, key[g], acc[r][g]);
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t g = 0; g < kTilePanels; ++g) store(scores + r * kScoreStride + g * kKeyGroup, acc[r][g]);
  }
}

// The same of INT8 keys: the exact integer dot times (q_scale * k_scale).
template <size_t kRows>
IBID_INLINE void score_int8(const std::byte* keys, const std::byte* ahead, const float* k_scale, size_t k_dim,
                            const TileScratch& s, size_t row, float* scores) {
  I16 acc[kRows][kTilePanels];
  for (size_t r = 0; r < kRows; ++r) {
    const int32_t start = kDotNeedsOffset ? s.q_offset[row + r] : 0;
    for (size_t g = 0; g < kTilePanels; ++g) acc[r][g] = set1(start);
  }
  for (size_t d = 0; d < k_dim; d += 4) {
    constexpr size_t kStep = kTilePanels * kKeyGroup * 4;
    prefetch_bytes(ahead, d / 4 * kStep, kStep);
    B64 key[kTilePanels];
    for (size_t g = 0; g < kTilePanels; ++g) key[g] = load_bytes(keys + (g * k_dim + d) * kKeyGroup);
    for (size_t r = 0; r < kRows; ++r) {
      const B64 x = spread4(s.q + (row + r) * s.q_stride + d);
      for (size_t g = 0; g < kTilePanels; ++g) acc[r][g] = dot4_offset128(acc[r][g], key[g], x);
    }
  }
  for (size_t g = 0; g < kTilePanels; ++g) {
    const V16 scale = load(k_scale + g * kKeyGroup);
    for (size_t r = 0; r < kRows; ++r) {
      const V16 both = mul(set1(s.q_scale[row + r]), scale);
      store(scores + r * kScoreStride + g * kKeyGroup, mul(to_float(acc[r][g]), both));
    }
  }
}

// Where a page's part is, and what to fetch meanwhile.
struct PagePart {
  const std::byte* at;
  const std::byte* ahead;
};

template <size_t kRows>
void score_tile(const KvHeadBlock& block, const AttendTile& tile, const TileScratch& s, PagePart keys,
                const float* k_scale, bool widened, RowTile rows, Span seen, size_t page) {
  constexpr size_t kWidth = kTilePanels * kKeyGroup;
  const Span here = intersect(seen, page_span(page));
  const float* q = tile.q + rows.first * tile.q_stride;
  for (size_t p = here.begin / kWidth * kWidth; p < here.end; p += kWidth) {
    float* scores = s.scores + rows.first * kScoreStride + p;
    const size_t in_page = p % kPagePositions;
    if (block.dtype == KvDType::kInt8) {
      const size_t offset = in_page * block.k_dim;
      score_int8<kRows>(keys.at + offset, keys.ahead + offset, k_scale + in_page, block.k_dim, s, rows.first,
                        scores);
    } else if (block.dtype == KvDType::kF16 && !widened) {
      const size_t offset = in_page * block.head_dim;
      score_floats<kRows>(reinterpret_cast<const uint16_t*>(keys.at) + offset,
                          reinterpret_cast<const uint16_t*>(keys.ahead) + offset, q, tile.q_stride,
                          block.head_dim, scores);
    } else {
      const size_t offset = in_page * block.head_dim;
      score_floats<kRows>(reinterpret_cast<const float*>(keys.at) + offset,
                          reinterpret_cast<const float*>(keys.ahead) + offset, q, tile.q_stride,
                          block.head_dim, scores);
    }
  }
}

// --- softmax

IBID_INLINE V16 cap(V16 s, float softcap) {
  return softcap == 0.0f ? s : mul(set1(softcap), tanh(div(s, set1(softcap))));
}

// Turns one row's dots into weights exp(s - max), and returns max and sum.
IBID_INLINE void softmax_row(const AttendTile& tile, const TileScratch& s, size_t row) {
  float* scores = s.scores + row * kScoreStride;
  const Span span = s.spans[row];
  const size_t first = span.begin / 16 * 16;
  const V16 none = set1(kNoScore);
  V16 largest = none;
  for (size_t p = first; p < span.end; p += 16) {
    V16 score = cap(mul(load(scores + p), set1(tile.scale)), tile.softcap);
    const Span lanes = intersect(span, {p, p + 16});
    if (lanes.end - lanes.begin < 16) {
      score = select(lane_range(lanes.begin - p, lanes.end - p), score, none);
    }
    store(scores + p, score);
    largest = max(score, largest);
  }
  const float top = reduce_max(largest) + 0.0f;   // -0 and 0 are equal, but their bits are not
  V16 sum = zero();
  for (size_t p = first; p < span.end; p += 16) {
    const V16 weight = exp(sub(load(scores + p), set1(top)));
    store(scores + p, weight);
    sum = add(sum, weight);
  }
  tile.result.max[row] = top;
  tile.result.sum[row] = reduce_add(sum);
}

// Folds the values' scales into the weights of all rows.
void scale_weights(const KvHeadBlock& block, const AttendTile& tile, const TileScratch& s) {
  for (size_t row = 0; row < tile.n_rows; ++row) {
    float* weights = s.scores + row * kScoreStride;
    for (size_t p = s.spans[row].begin / 16 * 16; p < s.spans[row].end; p += 16) {
      const std::byte* head = tile.heads[p / kPagePositions];
      const float* scales = reinterpret_cast<const float*>(head + block.v_scale) + p % kPagePositions;
      store(weights + p, mul(load(weights + p), load(scales)));
    }
  }
}

// --- values

// out[r][16 c + lane] += sum over `positions` of a page of weight * value, increasing. weights: of the
// page's first position, rows kScoreStride apart.
template <size_t kRows, size_t kColumns, typename Value>
IBID_INLINE void add_values(const Value* values, const Value* ahead, size_t v_dim, Span positions,
                            const float* weights, float* out, size_t out_stride) {
  V16 acc[kRows][kColumns];
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t c = 0; c < kColumns; ++c) acc[r][c] = loadu(out + r * out_stride + 16 * c);
  }
  for (size_t p = positions.begin; p < positions.end; ++p) {
    prefetch_bytes(ahead + p * v_dim, 0, kColumns * 16 * sizeof(Value));
    V16 value[kColumns];
    for (size_t c = 0; c < kColumns; ++c) value[c] = load_values(values + p * v_dim + 16 * c);
    for (size_t r = 0; r < kRows; ++r) {
      const V16 weight = set1(weights[r * kScoreStride + p]);
      for (size_t c = 0; c < kColumns; ++c) acc[r][c] = fma(weight, value[c], acc[r][c]);
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t c = 0; c < kColumns; ++c) storeu(out + r * out_stride + 16 * c, acc[r][c]);
  }
}

// All dimensions of kRows rows.
template <size_t kRows, typename Value>
void add_rows(const Value* values, const Value* ahead, size_t v_dim, Span positions, const float* weights,
              float* out, size_t out_stride) {
  if (is_empty(positions)) return;
  size_t d = 0;
  for (; d + 16 * kTilePanels <= v_dim; d += 16 * kTilePanels) {
    add_values<kRows, kTilePanels>(values + d, ahead + d, v_dim, positions, weights, out + d, out_stride);
  }
  if constexpr (kTilePanels > 2) {
    for (; d + 32 <= v_dim; d += 32) {
      add_values<kRows, 2>(values + d, ahead + d, v_dim, positions, weights, out + d, out_stride);
    }
  }
  for (; d < v_dim; d += 16) {
    add_values<kRows, 1>(values + d, ahead + d, v_dim, positions, weights, out + d, out_stride);
  }
}

// The part of a page that all rows see goes through the registers together; what only some see, row by row
// before and after it, so that each row's sum runs over its own positions in increasing order.
template <size_t kRows, typename Value>
void value_tile(const Value* values, const Value* ahead, const KvHeadBlock& block, const AttendTile& tile,
                const TileScratch& s, RowTile rows, size_t page) {
  const Span here = page_span(page);
  Span common = here;
  for (size_t r = 0; r < kRows; ++r) common = intersect(common, s.spans[rows.first + r]);
  if (is_empty(common)) common = {here.end, here.end};
  const float* weights = s.scores + rows.first * kScoreStride + here.begin;
  float* out = tile.result.out + rows.first * tile.result.out_stride;
  const auto one_row = [&](size_t r, Span part) __attribute__((always_inline)) {
    const Span own = intersect(intersect(s.spans[rows.first + r], part), here);
    if (is_empty(own)) return;
    add_rows<1>(values, ahead, block.v_dim, {own.begin - here.begin, own.end - here.begin},
                weights + r * kScoreStride, out + r * tile.result.out_stride, tile.result.out_stride);
  };
  for (size_t r = 0; r < kRows; ++r) one_row(r, {here.begin, common.begin});
  add_rows<kRows>(values, ahead, block.v_dim, {common.begin - here.begin, common.end - here.begin}, weights,
                  out, tile.result.out_stride);
  for (size_t r = 0; r < kRows; ++r) one_row(r, {common.end, here.end});
}

// --- pages

// Floats of a page's keys or values, so that tiles beyond the second need not convert them again.
template <typename Element>
void widen(const Element* from, size_t n, float* to) {
  for (size_t i = 0; i < n; i += 16) store(to + i, load_values(from + i));
}

void quantize_queries(const KvHeadBlock& block, const AttendTile& tile, const TileScratch& s) {
  for (size_t row = 0; row < tile.n_rows; ++row) {
    const float* q = tile.q + row * tile.q_stride;
    const RowQuantizer quantizer = quantizer_of(q, block.head_dim);
    I16 sum = set1(int32_t{0});
    for (size_t d = 0; d < block.head_dim; d += 16) {
      const I16 codes = quantize(q + d, block.head_dim - d, quantizer.inverse);
      store_i8(s.q + row * s.q_stride + d, codes);
      sum = add(sum, codes);
    }
    s.q_scale[row] = quantizer.scale;
    s.q_offset[row] = -128 * reduce_add(sum);
  }
}

// What is read after part `offset` of a page: the same part of the next page, `after` behind the last one.
IBID_INLINE PagePart page_part(const AttendTile& tile, size_t page, size_t last, size_t offset,
                               const std::byte* after) {
  const std::byte* at = tile.heads[page] + offset;
  if (page < last) return {at, tile.heads[page + 1] + offset};
  return {at, after == nullptr ? at : after};
}

void score_rows(const KvHeadBlock& block, const AttendTile& tile, const TileScratch& s, PagePart keys,
                size_t page, bool widened) {
  const auto* k_scale = reinterpret_cast<const float*>(tile.heads[page] + block.k_scale);
  for (size_t first = 0; first < tile.n_rows;) {
    const RowTile rows = next_tile(s, first, tile.n_rows);
    switch (rows.count) {
      case 1: score_tile<1>(block, tile, s, keys, k_scale, widened, rows, rows.seen, page); break;
      case 2: score_tile<2>(block, tile, s, keys, k_scale, widened, rows, rows.seen, page); break;
      case 3: score_tile<3>(block, tile, s, keys, k_scale, widened, rows, rows.seen, page); break;
      default: score_tile<4>(block, tile, s, keys, k_scale, widened, rows, rows.seen, page); break;
    }
    first += rows.count;
    keys.ahead = keys.at;   // fetched once
  }
}

template <typename Value>
void value_rows(const Value* values, const Value* ahead, const KvHeadBlock& block, const AttendTile& tile,
                const TileScratch& s, size_t page) {
  for (size_t first = 0; first < tile.n_rows;) {
    const RowTile rows = next_tile(s, first, tile.n_rows);
    switch (rows.count) {
      case 1: value_tile<1>(values, ahead, block, tile, s, rows, page); break;
      case 2: value_tile<2>(values, ahead, block, tile, s, rows, page); break;
      case 3: value_tile<3>(values, ahead, block, tile, s, rows, page); break;
      default: value_tile<4>(values, ahead, block, tile, s, rows, page); break;
    }
    first += rows.count;
    ahead = values;
  }
}

void score_page(const KvHeadBlock& block, const AttendTile& tile, const TileScratch& s, size_t page,
                size_t last, const std::byte* after) {
  PagePart keys = page_part(tile, page, last, block.k, after);
  const bool widened = block.dtype == KvDType::kF16 && tile.n_rows > 2 * kTileRows;
  if (widened) {
    widen(reinterpret_cast<const uint16_t*>(keys.at), kPagePositions * block.head_dim, s.page);
    keys = {reinterpret_cast<const std::byte*>(s.page), reinterpret_cast<const std::byte*>(s.page)};
  }
  score_rows(block, tile, s, keys, page, widened);
}

template <typename Value>
void value_page(const KvHeadBlock& block, const AttendTile& tile, const TileScratch& s, Span seen, size_t page,
                size_t last) {
  const PagePart part = page_part(tile, page, last, block.v, tile.next_head);
  const auto* values = reinterpret_cast<const Value*>(part.at);
  if (sizeof(Value) == sizeof(float) || tile.n_rows <= 2 * kTileRows) {
    value_rows(values, reinterpret_cast<const Value*>(part.ahead), block, tile, s, page);
    return;
  }
  const Span here = intersect(seen, page_span(page));
  const size_t begin = (here.begin - page * kPagePositions) * block.v_dim;
  widen(values + begin, (here.end - here.begin) * block.v_dim, s.page + begin);
  value_rows<float>(s.page, s.page, block, tile, s, page);
}

// --- the entries

void attend_tile(const KvHeadBlock& block, const AttendTile& tile, std::byte* memory) {
  const TileScratch s(memory, tile.n_rows, block);
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
  if (is_empty(seen)) return;
  const size_t first = seen.begin / kPagePositions;
  const size_t last = (seen.end - 1) / kPagePositions;
  if (block.dtype == KvDType::kInt8) quantize_queries(block, tile, s);
  for (size_t page = first; page <= last; ++page) {
    score_page(block, tile, s, page, last, tile.heads[first] + block.v);
  }
  for (size_t row = 0; row < tile.n_rows; ++row) {
    if (!is_empty(s.spans[row])) softmax_row(tile, s, row);
  }
  if (block.dtype == KvDType::kInt8) scale_weights(block, tile, s);
  for (size_t page = first; page <= last; ++page) {
    switch (block.dtype) {
      case KvDType::kF32: value_page<float>(block, tile, s, seen, page, last); break;
      case KvDType::kF16: value_page<uint16_t>(block, tile, s, seen, page, last); break;
      case KvDType::kInt8: value_page<int8_t>(block, tile, s, seen, page, last); break;
    }
  }
}

void attend_merge(const AttendSums& total, const AttendSums& part, size_t n_rows, size_t head_dim) {
  for (size_t row = 0; row < n_rows; ++row) {
    if (part.max[row] == kNoScore) continue;
    const V16 old_max = set1(total.max[row]);
    const V16 part_max = set1(part.max[row]);
    const V16 largest = max(part_max, old_max);
    const V16 a = exp(sub(old_max, largest));
    const V16 b = exp(sub(part_max, largest));
    store_first(total.sum + row, fma(set1(total.sum[row]), a, mul(set1(part.sum[row]), b)), 1);
    store_first(total.max + row, largest, 1);
    float* to = total.out + row * total.out_stride;
    const float* from = part.out + row * part.out_stride;
    for (size_t d = 0; d < head_dim; d += 16) {
      const size_t n = head_dim - d;
      store_upto(to + d, fma(load_upto(to + d, n), a, mul(load_upto(from + d, n), b)), n);
    }
  }
}

void fill_attention(Kernels& table) {
  table.kv_store = kv_store;
  table.kv_load = ref_kv_load;
  table.attend_tile = attend_tile;
  table.attend_merge = attend_merge;
}

}  // namespace
}  // namespace ibid::IBID_ISA
