// Attention of some query rows over one block of 256 positions. Included after vec_<isa>.h, once per
// instruction set; ref_attention.cc is the scalar twin and kernels.h states the formulas.
//
// However rows are tiled, every sum is one accumulator in one order. Scores of positions that a row does not
// see are computed along with the others and replaced by -inf; their values are never multiplied at all.
#pragma once

#include "kernels/attend_scores-inl.h"
#include "kernels/attend_values-inl.h"
#include "kernels/ref.h"

namespace ibid::IBID_ISA {
namespace {

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
    const std::byte* after = tile.heads[first] + block.v;
    score_page(block, tile, s, page_stream(tile, page, last, block.k, block.k_scale - block.k, after), page);
  }
  for (size_t row = 0; row < tile.n_rows; ++row) {
    if (!is_empty(s.spans[row])) softmax_row(tile, s, row);
  }
  if (block.dtype == KvDType::kInt8) scale_weights(block, tile, s);
  for (size_t page = first; page <= last; ++page) {
    const size_t bytes = block.v_scale - block.v;
    const Stream stream = page_stream(tile, page, last, block.v, bytes, tile.next_head);
    switch (block.dtype) {
      case KvDType::kF32: value_page<float>(block, tile, s, stream, seen, page); break;
      case KvDType::kF16: value_page<uint16_t>(block, tile, s, stream, seen, page); break;
      case KvDType::kInt8: value_page<int8_t>(block, tile, s, stream, seen, page); break;
    }
  }
}

// Factors of 16 rows at a time; then row by row.
void attend_merge(const AttendSums& total, const AttendSums& part, size_t n_rows, size_t head_dim) {
  for (size_t first = 0; first < n_rows; first += 16) {
    const size_t rows = smaller(n_rows - first, 16);
    const V16 old_max = load_upto(total.max + first, rows);
    const V16 part_max = load_upto(part.max + first, rows);
    const V16 largest = max(part_max, old_max);
    const V16 a = exp(sub(old_max, largest));
    const V16 b = exp(sub(part_max, largest));
    const V16 old_sum = load_upto(total.sum + first, rows);
    const V16 sum = fma(old_sum, a, mul(load_upto(part.sum + first, rows), b));
    const M16 nothing = equal(part_max, set1(kNoScore));
    store_upto(total.max + first, largest, rows);
    store_upto(total.sum + first, select(nothing, old_sum, sum), rows);
    alignas(64) float keep[16], take[16];
    store(keep, a);
    store(take, b);
    for (size_t i = 0; i < rows; ++i) {
      if (part.max[first + i] == kNoScore) continue;
      float* to = total.out + (first + i) * total.out_stride;
      const float* from = part.out + (first + i) * part.out_stride;
      for (size_t d = 0; d < head_dim; d += 16) {
        const size_t n = head_dim - d;
        const V16 sums = fma(load_upto(to + d, n), set1(keep[i]), mul(load_upto(from + d, n), set1(take[i])));
        store_upto(to + d, sums, n);
      }
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
