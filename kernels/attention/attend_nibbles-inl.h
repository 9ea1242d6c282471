// INT4: scores of keys, and weights and values of values, all in integers, for every 32 dimensions by themselves, which
// share their scales and minima. A byte has two numbers, and one load of 64 bytes gives two operands of a byte product.
// Included once per instruction set.
#pragma once

#include "kernels/attention/attend_softmax-inl.h"

namespace ibid::IBID_ISA {
namespace {

// --- scores

// scores[r][16 g + lane] = the product of row r with the keys of group first_group + g. scales: of the page's keys.
template <size_t kRows>
IBID_INLINE void score_nibbles(const Stream& stream, size_t first_group, const uint16_t* scales, size_t k_dim,
                               const TileScratch& s, size_t row, float* scores) {
  constexpr size_t kCellBytes = 64;   // eight dimensions of 16 positions
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
        store(to, fma(sum_of_q, minimum, fma(to_float(acc[r][g]), scale, before)));
      }
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    const V16 q_scale = set1(s.q_scale[row + r]);
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

// The weights of kRows rows, each of which sees something, times the scales of a group, as codes; and what the minima
// add to all dimensions of the group. Rows go side by side, so that a scale is converted once for them.
template <size_t kRows>
void encode_group(const KvHeadBlock& block, const AttendTile& tile, const TileScratch& s, RowTile rows, Span pages,
                  size_t group) {
  const float* const weights = s.scores + rows.first * kScoreStride;
  V16 largest[kRows], floor[kRows];
  Span common = rows.seen;
  for (size_t r = 0; r < kRows; ++r) {
    largest[r] = floor[r] = zero();
    common = intersect(common, s.spans[rows.first + r]);
  }
  for (size_t p = rows.seen.begin / 16 * 16; p < rows.seen.end; p += 16) {
    const std::byte* head = tile.heads[p / kPagePositions];
    const auto* scales = reinterpret_cast<const uint16_t*>(head + block.v_scale) +
                         nibble_scale(group, p % kPagePositions);
    const V16 scale = load_f16(scales), minimum = load_f16(scales + kPagePositions);
    if (common.begin <= p && p + 16 <= common.end) {
      for (size_t r = 0; r < kRows; ++r) {
        const V16 weight = load(weights + r * kScoreStride + p);
        const V16 scaled = mul(weight, scale);
        largest[r] = max(scaled, largest[r]);
        floor[r] = fma(weight, minimum, floor[r]);
        store(s.scaled + r * kAttentionBlock + p, scaled);
      }
      continue;
    }
    // What is not seen may have any weight, scale and minimum.
    for (size_t r = 0; r < kRows; ++r) {
      const M16 seen = seen_lanes(p, s.spans[rows.first + r]);
      const V16 weight = select(seen, load(weights + r * kScoreStride + p), zero());
      const V16 scaled = mul(weight, select(seen, scale, zero()));
      largest[r] = max(scaled, largest[r]);
      floor[r] = fma(weight, select(seen, minimum, zero()), floor[r]);
      store(s.scaled + r * kAttentionBlock + p, scaled);
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    const size_t row = rows.first + r, i = row * block.nibble_groups() + group;
    s.floors[i] = reduce_add(floor[r]);
    s.step[i] = encode_weights(s.scaled + r * kAttentionBlock, reduce_max(largest[r]), s.spans[row], pages,
                               s.codes + i * 2 * kAttentionBlock);
  }
}

// The same of all rows, whose weights softmax left as floats. `pages`: the positions of the pages whose values will be
// read.
void encode_nibble_weights(const KvHeadBlock& block, const AttendTile& tile, const TileScratch& s, Span pages) {
  for (size_t group = 0; group < block.nibble_groups(); ++group) {
    each_seeing(s, tile.n_rows, [&](auto count, RowTile rows) __attribute__((always_inline)) {
      encode_group<decltype(count)::kRows>(block, tile, s, rows, pages, group);
    });
  }
}

// --- values

// totals[digit][r] += the sums over the groups of four positions [begin, end) of a page, for the low, the high or both
// halves of a group's bytes. at: the group's first bytes in the page, the next four positions `stride` bytes on. codes:
// of the first row at the page's first position; to the next row code_stride.
template <size_t kRows, bool kLow, bool kHigh>
IBID_INLINE void add_nibbles(const Stream& stream, size_t at, size_t stride, size_t begin, size_t end,
                             const uint8_t* codes, size_t code_stride, int32_t* totals, size_t v_dim) {
  I16 low[kRows], high[kRows];
  for (size_t r = 0; r < kRows; ++r) {
    if constexpr (kLow) low[r] = load(totals + r * v_dim);
    if constexpr (kHigh) high[r] = load(totals + r * v_dim + 16);
  }
#pragma GCC unroll 4
  for (size_t g = begin; g < end; ++g) {
    fetch_ahead(stream, at + g * stride, 64);
    const B64 both = load_bytes(stream.at + at + g * stride);
    // The codes are bytes up to 255, but a number is below 16, so that no sum of two products saturates.
    for (size_t r = 0; r < kRows; ++r) {
      const B64 code = spread4(codes + r * code_stride + g * kValueGroup);
      if constexpr (kLow) low[r] = dot4_small(low[r], code, low_nibbles(both));
      if constexpr (kHigh) high[r] = dot4_small(high[r], code, high_nibbles(both));
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    if constexpr (kLow) store(totals + r * v_dim, low[r]);
    if constexpr (kHigh) store(totals + r * v_dim + 16, high[r]);
  }
}

template <size_t kRows>
void nibble_tile(Stream stream, const KvHeadBlock& block, const TileScratch& s, RowTile rows, size_t page) {
  const Span here = intersect(rows.seen, page_span(page));
  if (is_empty(here)) return;
  const size_t first = page * kPagePositions, n_groups = block.nibble_groups(), v_dim = block.v_dim;
  const size_t begin = (here.begin - first) / kValueGroup, end = (here.end - first + kValueGroup - 1) / kValueGroup;
  const size_t code_stride = n_groups * 2 * kAttentionBlock;
  for (size_t digit = 0; digit < 2; ++digit) {
    for (size_t group = 0; group < n_groups; ++group) {
      const size_t dim = group * kNibbleGroup, at = group * 64, stride = n_groups * 64;
      const uint8_t* codes = s.codes + rows.first * code_stride + (2 * group + digit) * kAttentionBlock + first;
      int32_t* totals = s.totals + (digit * kAttendPassRows + rows.first) * v_dim + dim;
      const bool two = dim + 16 < v_dim;
      if (kTilePanels > 1 && two) {
        add_nibbles<kRows, true, true>(stream, at, stride, begin, end, codes, code_stride, totals, v_dim);
        continue;
      }
      add_nibbles<kRows, true, false>(stream, at, stride, begin, end, codes, code_stride, totals, v_dim);
      if (two) add_nibbles<kRows, false, true>(stream, at, stride, begin, end, codes, code_stride, totals, v_dim);
    }
    stream.ahead = nullptr;
  }
}

// The results of rows, once all values are summed.
void finish_nibbles(const KvHeadBlock& block, const AttendTile& tile, const TileScratch& s) {
  const size_t low_digits = kAttendPassRows * block.v_dim, n_groups = block.nibble_groups();
  for (size_t row = 0; row < tile.n_rows; ++row) {
    if (is_empty(s.spans[row])) continue;
    float* out = tile.result.out + row * tile.result.out_stride;
    for (size_t d = 0; d < block.v_dim; d += 16) {
      const int32_t* total = s.totals + row * block.v_dim + d;
      const I16 sum = add(shift_left<kWeightDigitBits>(load(total)), load(total + low_digits));
      const size_t i = row * n_groups + d / kNibbleGroup;
      storeu(out + d, fma(to_float(sum), set1(s.step[i]), set1(s.floors[i])));
    }
  }
}

}  // namespace
}  // namespace ibid::IBID_ISA
