// Weighted values of a tile. Lanes are 16 dimensions; a register tile has up to kTileRows rows x kTilePanels vectors,
// with one accumulator per row and dimension. Included once per instruction set.
#pragma once

#include "kernels/simd/attend_rows-inl.h"

namespace ibid::IBID_ISA {
namespace {

// out[r][16 c + lane] += sum over `positions` of a page of weight * value, in increasing order, for kColumns vectors of
// dimensions from `dim` on. weights: the first row's weight of the page's first position; the weights of the next row
// follow kScoreStride later.
template <size_t kRows, size_t kColumns, typename Value>
IBID_INLINE void add_values(const Stream& stream, size_t dim, size_t v_dim, Span positions, const float* weights,
                            float* out, size_t out_stride) {
  const Value* values = reinterpret_cast<const Value*>(stream.at);
  V16 acc[kRows][kColumns];
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t c = 0; c < kColumns; ++c) acc[r][c] = loadu(out + r * out_stride + dim + 16 * c);
  }
#pragma GCC unroll 4
  for (size_t p = positions.begin; p < positions.end; ++p) {
    const size_t at = p * v_dim + dim;
    fetch_ahead(stream, at * sizeof(Value), kColumns * 16 * sizeof(Value));
    V16 value[kColumns];
    for (size_t c = 0; c < kColumns; ++c) value[c] = load_values(values + at + 16 * c);
    for (size_t r = 0; r < kRows; ++r) {
      const V16 weight = set1(weights[r * kScoreStride + p]);
      for (size_t c = 0; c < kColumns; ++c) acc[r][c] = fma(weight, value[c], acc[r][c]);
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t c = 0; c < kColumns; ++c) storeu(out + r * out_stride + dim + 16 * c, acc[r][c]);
  }
}

// Adds the weighted float values of `positions` of a page, in all dimensions, to the outputs of kRows rows.
template <size_t kRows, typename Value>
void add_rows(const Stream& stream, size_t v_dim, Span positions, const float* weights, float* out, size_t out_stride) {
  if (is_empty(positions)) return;
  size_t d = 0;
  for (; d + 16 * kTilePanels <= v_dim; d += 16 * kTilePanels) {
    add_values<kRows, kTilePanels, Value>(stream, d, v_dim, positions, weights, out, out_stride);
  }
  if constexpr (kTilePanels > 2) {
    for (; d + 32 <= v_dim; d += 32) {
      add_values<kRows, 2, Value>(stream, d, v_dim, positions, weights, out, out_stride);
    }
  }
  for (; d < v_dim; d += 16) {
    add_values<kRows, 1, Value>(stream, d, v_dim, positions, weights, out, out_stride);
  }
}

// Positions that are visible to all rows are summed for all rows at once. Positions that only some rows see, before and
// after these, are summed row by row, so that each row's sum runs over its own positions in increasing order.
template <size_t kRows, typename Value>
void value_tile(const Stream& stream, const KvHeadBlock& block, const AttendTile& tile, const TileScratch& s,
                RowTile rows, size_t page) {
  const Span here = page_span(page);
  Span common = here;
  for (size_t r = 0; r < kRows; ++r) common = intersect(common, s.spans[rows.first + r]);
  if (is_empty(common)) common = {here.end, here.end};
  const size_t out_stride = tile.result.out_stride;
  const float* weights = s.scores + rows.first * kScoreStride + here.begin;
  float* out = tile.result.out + rows.first * out_stride;
  const auto one_row = [&](size_t r, Span part) __attribute__((always_inline)) {
    const Span own = intersect(intersect(s.spans[rows.first + r], part), here);
    if (is_empty(own)) return;
    add_rows<1, Value>(stream, block.v_dim, {own.begin - here.begin, own.end - here.begin}, weights + r * kScoreStride,
                       out + r * out_stride, out_stride);
  };
  for (size_t r = 0; r < kRows; ++r) one_row(r, {here.begin, common.begin});
  add_rows<kRows, Value>(stream, block.v_dim, {common.begin - here.begin, common.end - here.begin}, weights, out,
                         out_stride);
  for (size_t r = 0; r < kRows; ++r) one_row(r, {common.end, here.end});
}

// Adds the weighted values of one page for all rows.
template <typename Value>
void value_rows(const KvHeadBlock& block, const AttendTile& tile, const TileScratch& s, Stream stream, size_t page) {
  for (size_t first = 0; first < tile.n_rows;) {
    const RowTile rows = next_tile(s, first, tile.n_rows);
    switch (rows.count) {
      case 1: value_tile<1, Value>(stream, block, tile, s, rows, page); break;
      case 2: value_tile<2, Value>(stream, block, tile, s, rows, page); break;
      case 3: value_tile<3, Value>(stream, block, tile, s, rows, page); break;
      default: value_tile<4, Value>(stream, block, tile, s, rows, page); break;
    }
    first += rows.count;
    stream.ahead = nullptr;
  }
}

// --- INT8 values, times both bytes (high and low) of the weights' codes, in integers

// totals[r] += sums of code * value over the groups of four positions [begin, end) of a page. codes: the first row's
// code of the page's first position; the codes of the next row follow 2 * kAttentionBlock later.
template <size_t kRows, size_t kColumns>
IBID_INLINE void add_codes(const Stream& stream, size_t dim, size_t v_dim, size_t begin, size_t end,
                           const uint8_t* codes, int32_t* totals) {
  I16 acc[kRows][kColumns];
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t c = 0; c < kColumns; ++c) acc[r][c] = load(totals + r * v_dim + dim + 16 * c);
  }
#pragma GCC unroll 4
  for (size_t g = begin; g < end; ++g) {
    const size_t at = (g * v_dim + dim) * kValueGroup;
    fetch_ahead(stream, at, kColumns * 64);
    B64 value[kColumns];
    for (size_t c = 0; c < kColumns; ++c) value[c] = load_bytes(stream.at + at + 64 * c);
    for (size_t r = 0; r < kRows; ++r) {
      const B64 code = spread4(codes + r * 2 * kAttentionBlock + g * kValueGroup);
      for (size_t c = 0; c < kColumns; ++c) acc[r][c] = dot4_unsigned(acc[r][c], code, value[c]);
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t c = 0; c < kColumns; ++c) store(totals + r * v_dim + dim + 16 * c, acc[r][c]);
  }
}

template <size_t kRows>
void code_tile(Stream stream, const KvHeadBlock& block, const TileScratch& s, RowTile rows, size_t page) {
  const Span here = intersect(rows.seen, page_span(page));
  if (is_empty(here)) return;
  const size_t first = page * kPagePositions;
  const size_t begin = (here.begin - first) / kValueGroup, end = (here.end - first + kValueGroup - 1) / kValueGroup;
  const size_t v_dim = block.v_dim;
  for (size_t code_byte = 0; code_byte < 2; ++code_byte) {
    const uint8_t* codes = s.codes + (rows.first * 2 + code_byte) * kAttentionBlock + first;
    int32_t* totals = s.totals + (code_byte * kAttendPassRows + rows.first) * v_dim;
    size_t d = 0;
    for (; d + 16 * kTilePanels <= v_dim; d += 16 * kTilePanels) {
      add_codes<kRows, kTilePanels>(stream, d, v_dim, begin, end, codes, totals);
    }
    for (; d < v_dim; d += 16) add_codes<kRows, 1>(stream, d, v_dim, begin, end, codes, totals);
    stream.ahead = nullptr;
  }
}

// Adds the weighted INT8 values of a page, as integers, for the rows of the tile.
void code_rows(const KvHeadBlock& block, const AttendTile& tile, const TileScratch& s, Stream stream, size_t page) {
  for (size_t first = 0; first < tile.n_rows;) {
    const RowTile rows = next_tile(s, first, tile.n_rows);
    switch (rows.count) {
      case 1: code_tile<1>(stream, block, s, rows, page); break;
      case 2: code_tile<2>(stream, block, s, rows, page); break;
      case 3: code_tile<3>(stream, block, s, rows, page); break;
      default: code_tile<4>(stream, block, s, rows, page); break;
    }
    first += rows.count;
    stream.ahead = nullptr;
  }
}

// Calls value_rows() or code_rows() for the format `type` of the values in the stream. INT4 values are summed for a
// whole block instead (add_nibble_values).
void value_page(const KvHeadBlock& block, const AttendTile& tile, const TileScratch& s, const Stream& stream,
                KvNumberFormat type, size_t page) {
  switch (type) {
    case KvNumberFormat::kF32: value_rows<float>(block, tile, s, stream, page); break;
    case KvNumberFormat::kF16: value_rows<uint16_t>(block, tile, s, stream, page); break;
    case KvNumberFormat::kInt8: code_rows(block, tile, s, stream, page); break;
    case KvNumberFormat::kInt4: break;
  }
}

}  // namespace
}  // namespace ibid::IBID_ISA
