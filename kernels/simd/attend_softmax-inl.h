// Quantisation of queries before the scores of a tile, softmax after them, and quantisation of the weights for INT8
// values. Included once per instruction set.
#pragma once

#include "kernels/simd/attend_rows-inl.h"

namespace ibid::IBID_ISA {
namespace {

// Quantises the dimensions `of` of a row's query with one scale, as part `part` (0, or 1 in latent rows). Writes zeros
// from of.end up to `padded`.
IBID_INLINE void quantize_query(const KvHeadBlock& block, const float* q, Span of, size_t padded, size_t part,
                                const TileScratch& s, size_t row) {
  const RowQuantizer quantizer = quantizer_of(q + of.begin, of.end - of.begin);
  const float factor = block.is_latent() ? quantizer.scale : 1.0f;
  float* const sums = s.q_sums + row * block.nibble_groups();
  I16 sum = set1(int32_t{0}), before = sum;
  for (size_t d = of.begin; d < padded; d += 16) {
    const I16 codes = d < of.end ? quantize(q + d, of.end - d, quantizer.inverse) : set1(int32_t{0});
    store_i8(s.q + row * s.q_stride + d, codes);
    sum = add(sum, codes);
    if (block.keys() != KvNumberFormat::kInt4 || d % kNibbleGroup == 0) continue;
    sums[d / kNibbleGroup] = static_cast<float>(reduce_add(sub(sum, before))) * factor;
    before = sum;
  }
  s.q_scale[part][row] = quantizer.scale;
  s.q_offset[part][row] = -128 * reduce_add(sum);
}

void quantize_queries(const KvHeadBlock& block, const AttendTile& tile, const TileScratch& s) {
  for (size_t row = 0; row < tile.n_rows; ++row) {
    const float* q = tile.q + row * tile.q_stride;
    if (!block.is_latent()) {
      quantize_query(block, q, {0, block.head_dim}, s.q_stride, 0, s, row);
      continue;
    }
    quantize_query(block, q, {0, block.latent_dim}, block.latent_dim, 0, s, row);
    quantize_query(block, q, {block.latent_dim, block.head_dim}, s.q_stride, 1, s, row);
  }
}

// Sets the scores of positions in `hull` that are not visible to the row to -inf.
IBID_INLINE void mask_invisible(float* scores, Span hull, Span seen) {
  for (size_t p = hull.begin / 16 * 16; p < hull.end; p += 16) {
    const Span lanes = intersect(seen, {p, p + 16});
    if (lanes.begin == p && lanes.end == p + 16) {
      p = seen.end / 16 * 16 - 16;  // skip to the end: all positions between are visible
      continue;
    }
    const M16 mask = is_empty(lanes) ? lane_range(0, 0) : lane_range(lanes.begin - p, lanes.end - p);
    store(scores + p, select(mask, load(scores + p), set1(kNoScore)));
  }
}

// s = softcap * tanh(s * scale / softcap), in place.
void cap_scores(const AttendTile& tile, float* scores, Span seen) {
  for (size_t p = seen.begin / 16 * 16; p < seen.end; p += 16) {
    const V16 s = mul(load(scores + p), set1(tile.scale));
    store(scores + p, mul(set1(tile.softcap), tanh(div(s, set1(tile.softcap)))));
  }
}

// Loads 16 weights from position p on, with zeros for positions that are not visible.
IBID_INLINE V16 load_seen(const float* weights, size_t p, Span seen) {
  const Span lanes = intersect(seen, {p, p + 16});
  if (is_empty(lanes)) return zero();
  return select(lane_range(lanes.begin - p, lanes.end - p), load(weights + p), zero());
}

// Quantises the scaled weights of a row to 16-bit codes, whose high and low bytes are stored separately. Positions in
// `pages` (those whose values are read) that are not visible get 0. top: the largest weight. Returns the weight of one
// unit of a code.
float encode_weights(const float* weights, float top, Span seen, Span pages, uint8_t* codes) {
  const bool is_zero = top < kTinyWeight;
  const V16 inverse = set1(is_zero ? 0.0f : kLargestWeightCode / top);
  uint8_t* high = codes;
  uint8_t* low = high + kAttentionBlock;
  for (size_t p = pages.begin; p < pages.end; p += 64) {
    I16 code[4];
    if (seen.begin <= p && p + 64 <= seen.end) {
      for (size_t i = 0; i < 4; ++i) code[i] = to_int(mul(load(weights + p + 16 * i), inverse));
    } else {
      for (size_t i = 0; i < 4; ++i) code[i] = to_int(mul(load_seen(weights, p + 16 * i, seen), inverse));
    }
    store_code_bytes(high + p, low + p, code);
  }
  return is_zero ? 0.0f : top / kLargestWeightCode;
}

template <size_t kCount>
struct RowCount {
  static constexpr size_t kRows = kCount;
};

// Calls act(RowCount, RowTile) for the rows that see any position: for kSoftmaxRows rows at once if all of them do,
// else row by row.
template <typename Act>
IBID_INLINE void for_visible_rows(const TileScratch& s, size_t n_rows, const Act& act) {
  for (size_t first = 0; first < n_rows;) {
    const RowTile rows = next_tile(s, first, n_rows);
    bool together = rows.count == kSoftmaxRows;
    for (size_t r = 0; r < rows.count; ++r) together &= !is_empty(s.spans[first + r]);
    if (together) {
      act(RowCount<kSoftmaxRows>{}, rows);
    } else {
      for (size_t r = 0; r < rows.count; ++r) {
        const Span seen = s.spans[first + r];
        if (!is_empty(seen)) act(RowCount<1>{}, RowTile{first + r, 1, seen});
      }
    }
    first += rows.count;
  }
}

// Replaces the dot products of kRows rows, all of which see positions, by weights exp(s - max), and stores max and sum
// in the result. kInt8: also multiplies each weight by its value's scale, and quantises it. Interleaves rows for speed.
template <size_t kRows, bool kInt8>
void softmax_rows(const KvHeadBlock& block, const AttendTile& tile, const TileScratch& s, RowTile rows, Span pages) {
  float* const scores = s.scores + rows.first * kScoreStride;
  const V16 scale = set1(tile.softcap == 0.0f ? tile.scale : 1.0f);
  V16 largest[kRows], top[kRows], sum[kRows];
  for (size_t r = 0; r < kRows; ++r) {
    const Span seen = s.spans[rows.first + r];
    if (tile.softcap != 0.0f) cap_scores(tile, scores + r * kScoreStride, seen);
    mask_invisible(scores + r * kScoreStride, rows.seen, seen);
    largest[r] = set1(kNoScore);
    sum[r] = zero();
  }
  const size_t first = rows.seen.begin / 16 * 16;
  for (size_t p = first; p < rows.seen.end; p += 16) {
    for (size_t r = 0; r < kRows; ++r) {
      largest[r] = max(mul(load(scores + r * kScoreStride + p), scale), largest[r]);
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    const float max = reduce_max(largest[r]) + 0.0f;  // + 0.0f replaces -0 by 0: they are equal, but their bits differ
    tile.result.max[rows.first + r] = max;
    top[r] = set1(max);
  }
  for (size_t r = 0; r < kRows; ++r) largest[r] = zero();  // from here on `largest` is the largest weight of each row
  for (size_t p = first; p < rows.seen.end; p += 16) {
    V16 value_scale = zero();
    if constexpr (kInt8) {
      const std::byte* head = tile.head_blocks[p / kPagePositions];
      value_scale = load(reinterpret_cast<const float*>(head + block.v_scale) + p % kPagePositions);
    }
    for (size_t r = 0; r < kRows; ++r) {
      float* at = scores + r * kScoreStride + p;
      const V16 weight = exp_bounded(sub(mul(load(at), scale), top[r]));
      sum[r] = add(sum[r], weight);
      if constexpr (kInt8) {
        // Positions that are not visible have weight 0 and an undefined scale: the product is NaN or 0, and max()
        // ignores both.
        const V16 scaled = mul(weight, value_scale);
        largest[r] = max(scaled, largest[r]);
        store(at, scaled);
      } else {
        store(at, weight);
      }
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    tile.result.sum[rows.first + r] = reduce_add(sum[r]);
    if constexpr (kInt8) {
      const size_t row = rows.first + r;
      s.step[row] = encode_weights(s.scores + row * kScoreStride, reduce_max(largest[r]), s.spans[row], pages,
                                   s.codes + row * 2 * kAttentionBlock);
    }
  }
}

template <size_t kRows>
IBID_INLINE void softmax_group(const KvHeadBlock& block, const AttendTile& tile, const TileScratch& s, RowTile rows,
                               Span pages) {
  if (block.values() == KvNumberFormat::kInt8) {
    softmax_rows<kRows, true>(block, tile, s, rows, pages);
  } else {
    softmax_rows<kRows, false>(block, tile, s, rows, pages);
  }
}

// Softmax of all rows of the tile. `pages`: the positions of the pages whose values will be read.
void softmax(const KvHeadBlock& block, const AttendTile& tile, const TileScratch& s, Span pages) {
  for_visible_rows(
      s, tile.n_rows, [&](auto count, RowTile rows) __attribute__((always_inline)) {
        softmax_group<decltype(count)::kRows>(block, tile, s, rows, pages);
      });
}

// Writes the results of rows whose values were summed as integers.
void finish_codes(const KvHeadBlock& block, const AttendTile& tile, const TileScratch& s) {
  const size_t low_bytes = kAttendPassRows * block.v_dim;
  for (size_t row = 0; row < tile.n_rows; ++row) {
    if (is_empty(s.spans[row])) continue;
    float* out = tile.result.out + row * tile.result.out_stride;
    for (size_t d = 0; d < block.v_dim; d += 16) {
      const int32_t* total = s.totals + row * block.v_dim + d;
      const I16 sum = add(shift_left<kCodeByteBits>(load(total)), load(total + low_bytes));
      storeu(out + d, mul(to_float(sum), set1(s.step[row])));
    }
  }
}

}  // namespace
}  // namespace ibid::IBID_ISA
