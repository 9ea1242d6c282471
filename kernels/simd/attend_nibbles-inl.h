// INT4 attention: scores, and weighted sums of values, in integers. Every 32 dimensions share scales and minima, so
// they are summed separately. A byte holds two numbers, so one load of 64 bytes gives two operands for byte dot
// products. Included once per instruction set.
#pragma once

#include "kernels/simd/attend_rows-inl.h"
#include "kernels/simd/attend_softmax-inl.h"

namespace ibid::IBID_ISA {
namespace {

// --- scores

// scores[r][16 g + lane] = dot product of row r with the keys of group first_group + g. scales: scales of the page's
// keys.
template <size_t kRows>
IBID_INLINE void score_nibbles(const Stream& stream, size_t first_group, const uint16_t* scales,
                               const KvHeadBlock& block, const TileScratch& s, size_t row, float* scores) {
  const size_t k_dim = block.k_dim;
  const bool latent = block.is_latent();
  constexpr size_t kCellBytes = 64;  // a cell has eight dimensions of 16 positions
  const size_t n_cells = k_dim / 8;
  const std::byte* keys = stream.at + first_group * n_cells * kCellBytes;
  for (size_t nibbles = 0; nibbles < k_dim / kNibbleGroup; ++nibbles) {
    I16 acc[kRows][kTilePanels];
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t g = 0; g < kTilePanels; ++g) acc[r][g] = set1(int32_t{0});
    }
#pragma GCC unroll 4
    for (size_t cell = nibbles * 4; cell < nibbles * 4 + 4; ++cell) {
      constexpr size_t kStep = kTilePanels * kCellBytes;
      fetch_ahead(stream, first_group * n_cells * kCellBytes + cell * kStep, kStep);
      for (size_t g = 0; g < kTilePanels; ++g) {
        const B64 both = load_bytes(keys + (g * n_cells + cell) * kCellBytes);
        const B64 low = low_nibbles(both), high = high_nibbles(both);
        for (size_t r = 0; r < kRows; ++r) {
          const int8_t* q = s.q + (row + r) * s.q_stride + cell * 8;
          acc[r][g] = dot4_small(dot4_small(acc[r][g], low, spread4(q)), high, spread4(q + 4));
        }
      }
    }
    for (size_t g = 0; g < kTilePanels; ++g) {
      const uint16_t* at = scales + nibble_scale(nibbles, (first_group + g) * kKeyGroup);
      const V16 scale = load_f16(at), minimum = load_f16(at + kPagePositions);
      for (size_t r = 0; r < kRows; ++r) {
        float* const to = scores + r * kScoreStride + g * kKeyGroup;
        const V16 before = nibbles == 0 ? zero() : load(to);
        const V16 sum_of_q = set1(s.q_sums[(row + r) * (k_dim / kNibbleGroup) + nibbles]);
        const size_t part = nibbles < block.value_groups() ? 0 : 1;
        const V16 by = latent ? mul(scale, set1(s.q_scale[part][row + r])) : scale;
        store(to, fma(sum_of_q, minimum, fma(to_float(acc[r][g]), by, before)));
      }
    }
  }
  if (latent) return;
  for (size_t r = 0; r < kRows; ++r) {
    const V16 q_scale = set1(s.q_scale[0][row + r]);
    for (size_t g = 0; g < kTilePanels; ++g) {
      float* const to = scores + r * kScoreStride + g * kKeyGroup;
      store(to, mul(load(to), q_scale));
    }
  }
}

// --- weights

IBID_INLINE M16 seen_lanes(size_t p, Span seen) {
  const Span lanes = intersect(seen, {p, p + 16});
  return is_empty(lanes) ? lane_range(0, 0) : lane_range(lanes.begin - p, lanes.end - p);
}

// Encodes (weight times scale of the group) as integers, for kRows rows with visible positions, and sums weight times
// minimum, which is added to all dimensions of the group. Rows are processed together, so that each scale is converted
// only once. index: the first row's index in the register tile. pages: positions of the pages to read.
template <size_t kRows>
void encode_group(const KvHeadBlock& block, const AttendTile& tile, const TileScratch& s, RowTile rows, size_t index,
                  Span pages, size_t group) {
  const float* const weights = s.scores + rows.first * kScoreStride;
  V16 largest[kRows], floor[kRows];
  Span common = rows.seen;
  for (size_t r = 0; r < kRows; ++r) {
    largest[r] = floor[r] = zero();
    common = intersect(common, s.spans[rows.first + r]);
  }
  float* const scaled = s.scaled;
  for (size_t page = pages.begin / kPagePositions; page * kPagePositions < pages.end; ++page) {
    const Span here = page_span(page);
    const auto* scales =
        reinterpret_cast<const uint16_t*>(tile.head_blocks[page] + block.v_scale) + nibble_scale(group, 0);
    const bool whole = common.begin <= here.begin && here.end <= common.end;
    for (size_t p = here.begin; p < here.end; p += 16, scales += 16) {
      const V16 scale = load_f16(scales), minimum = load_f16(scales + kPagePositions);
      for (size_t r = 0; r < kRows; ++r) {
        V16 weight = load(weights + r * kScoreStride + p), own_scale = scale, own_minimum = minimum;
        if (!whole) {  // weight, scale and minimum of invisible positions are undefined
          const M16 seen = seen_lanes(p, s.spans[rows.first + r]);
          weight = select(seen, weight, zero());
          own_scale = select(seen, scale, zero());
          own_minimum = select(seen, minimum, zero());
        }
        const V16 product = mul(weight, own_scale);
        largest[r] = max(product, largest[r]);
        floor[r] = fma(weight, own_minimum, floor[r]);
        store(scaled + r * kAttentionBlock + p, product);
      }
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    const size_t i = index + r;
    s.floors[i] = reduce_add(floor[r]);
    s.step[i] = encode_weights(s.scaled + r * kAttentionBlock, reduce_max(largest[r]), s.spans[rows.first + r], pages,
                               s.codes + i * 2 * kAttentionBlock);
  }
}

// Encodes the weights of a register tile's rows, which softmax() left as floats.
template <size_t kRows>
void encode_tile(const KvHeadBlock& block, const AttendTile& tile, const TileScratch& s, RowTile rows, size_t group) {
  const Span pages{page_span(rows.seen.begin / kPagePositions).begin,
                   page_span((rows.seen.end - 1) / kPagePositions).end};
  bool together = kRows <= kSoftmaxRows;
  for (size_t r = 0; r < kRows; ++r) together &= !is_empty(s.spans[rows.first + r]);
  if constexpr (kRows <= kSoftmaxRows) {
    if (together) return encode_group<kRows>(block, tile, s, rows, 0, pages, group);
  }
  for (size_t r = 0; r < kRows; ++r) {
    const Span seen = s.spans[rows.first + r];
    if (!is_empty(seen)) encode_group<1>(block, tile, s, {rows.first + r, 1, seen}, r, pages, group);
  }
}

// --- values

// Number of digits (bytes of a weight's code) summed in one pass over the values. If 2, a pass also sums both halves of
// the bytes.
constexpr size_t kCodeBytesPerPass = kTilePanels > 1 ? 2 : 1;

// Sums kDigits digits of the weights' codes, from `digit` on, times a group's values over all positions visible to
// `rows`, for the low, the high or both halves of the bytes. The accumulators stay in registers for the whole block,
// and a byte is unpacked once for all rows and digits.
template <size_t kRows, size_t kCodeBytes, bool kLow, bool kHigh>
IBID_INLINE void sum_nibbles(const Operands& operands, const TileScratch& s, RowTile rows, size_t group, size_t stride,
                             size_t code_byte, bool fetch) {
  I16 low[kCodeBytes][kRows], high[kCodeBytes][kRows];
  const size_t ahead = operands.ahead_of_values();
  for (size_t i = 0; i < kCodeBytes; ++i) {
    for (size_t r = 0; r < kRows; ++r) low[i][r] = high[i][r] = set1(int32_t{0});
  }
  for (size_t page = rows.seen.begin / kPagePositions; page * kPagePositions < rows.seen.end; ++page) {
    const Span here = intersect(rows.seen, page_span(page));
    const size_t first = page * kPagePositions, begin = (here.begin - first) / kValueGroup;
    const size_t end = (here.end - first + kValueGroup - 1) / kValueGroup;
    const Stream stream = operands.values(page, fetch);
    const uint8_t* codes = s.codes + code_byte * kAttentionBlock + first;
#pragma GCC unroll 2
    for (size_t g = begin; g < end; ++g) {
      const size_t at = group * 64 + g * stride;
      fetch_ahead(stream, at * ahead, ahead * 64);
      const B64 both = load_bytes(stream.at + at);
      const B64 lows = low_nibbles(both), highs = high_nibbles(both);
      // Codes are bytes up to 255, but values are below 16, so no sum of two products saturates 16 bits.
      for (size_t i = 0; i < kCodeBytes; ++i) {
        for (size_t r = 0; r < kRows; ++r) {
          const B64 code = spread4(codes + (2 * r + i) * kAttentionBlock + g * kValueGroup);
          if constexpr (kLow) low[i][r] = dot4_small(low[i][r], code, lows);
          if constexpr (kHigh) high[i][r] = dot4_small(high[i][r], code, highs);
        }
      }
    }
  }
  for (size_t i = 0; i < kCodeBytes; ++i) {
    for (size_t r = 0; r < kRows; ++r) {
      int32_t* const to = s.totals + ((code_byte + i) * kTileRows + r) * kNibbleGroup;
      if constexpr (kLow) store(to, low[i][r]);
      if constexpr (kHigh) store(to + 16, high[i][r]);
    }
  }
}

// Writes the results of a register tile's rows for one group of dimensions.
void finish_nibbles(const KvHeadBlock& block, const AttendTile& tile, const TileScratch& s, RowTile rows,
                    size_t group) {
  for (size_t r = 0; r < rows.count; ++r) {
    if (is_empty(s.spans[rows.first + r])) continue;
    float* out = tile.result.out + (rows.first + r) * tile.result.out_stride + group * kNibbleGroup;
    const size_t n = smaller(block.v_dim - group * kNibbleGroup, kNibbleGroup);
    for (size_t d = 0; d < n; d += 16) {
      const int32_t* total = s.totals + r * kNibbleGroup + d;
      const I16 sum = add(shift_left<kCodeByteBits>(load(total)), load(total + kTileRows * kNibbleGroup));
      storeu(out + d, fma(to_float(sum), set1(s.step[r]), set1(s.floors[r])));
    }
  }
}

// Processes one group of dimensions at a time, so that the group's codes and sums stay in the L1 cache.
template <size_t kRows>
void nibble_tile(const KvHeadBlock& block, const AttendTile& tile, const TileScratch& s, const Operands& operands,
                 RowTile rows, bool fetch) {
  const size_t stride = block.value_groups() * 64;
  for (size_t group = 0; group < block.value_groups(); ++group) {
    encode_tile<kRows>(block, tile, s, rows, group);
    const bool two = group * kNibbleGroup + 16 < block.v_dim;
    for (size_t code_byte = 0; code_byte < 2; code_byte += kCodeBytesPerPass) {
      const bool ask = fetch && code_byte == 0;
      if (kCodeBytesPerPass == 2 && two) {
        sum_nibbles<kRows, kCodeBytesPerPass, true, true>(operands, s, rows, group, stride, code_byte, ask);
        continue;
      }
      sum_nibbles<kRows, kCodeBytesPerPass, true, false>(operands, s, rows, group, stride, code_byte, ask);
      if (two) sum_nibbles<kRows, kCodeBytesPerPass, false, true>(operands, s, rows, group, stride, code_byte, false);
    }
    finish_nibbles(block, tile, s, rows, group);
  }
}

// Adds the weighted INT4 values of the whole block for all rows.
void add_nibble_values(const KvHeadBlock& block, const AttendTile& tile, const TileScratch& s, const Operands& operands,
                       NextBlock& next, bool fetch) {
  for (size_t first = 0; first < tile.n_rows;) {
    const RowTile rows = next_tile(s, first, tile.n_rows);
    first += rows.count;
    next.fetch_share();
    if (is_empty(rows.seen)) continue;
    switch (rows.count) {
      case 1: nibble_tile<1>(block, tile, s, operands, rows, fetch); break;
      case 2: nibble_tile<2>(block, tile, s, operands, rows, fetch); break;
      case 3: nibble_tile<3>(block, tile, s, operands, rows, fetch); break;
      default: nibble_tile<4>(block, tile, s, operands, rows, fetch); break;
    }
    fetch = false;
  }
}

}  // namespace
}  // namespace ibid::IBID_ISA
