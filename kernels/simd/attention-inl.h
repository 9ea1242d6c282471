// Attention of query rows over one block of 256 positions. Included after vec_<isa>.h, once per instruction set;
// ref_attention.cc is the scalar reference and kernels.h has the formulas.
//
// However rows are tiled, every sum is one accumulator in one order. Scores of positions that a row does not see may be
// computed with the others, but are replaced by -inf; values at such positions are never multiplied.
#pragma once

#include "kernels/reference/ref.h"
#include "kernels/simd/attend_nibbles-inl.h"
#include "kernels/simd/attend_scores-inl.h"
#include "kernels/simd/attend_softmax-inl.h"
#include "kernels/simd/attend_values-inl.h"
#include "kernels/simd/latent_values-inl.h"

namespace ibid::IBID_ISA {
namespace {

// Computes the rows of `tile`, few enough for their scores to stay in the L1 cache, over the whole block.
void attend_pass(const KvHeadBlock& block, const AttendTile& tile, const TileScratch& s, const Operands& operands,
                 NextBlock& next, bool fetch) {
  Span seen;
  for (size_t row = 0; row < tile.n_rows; ++row) seen = hull(seen, s.spans[row]);
  if (is_empty(seen)) return;
  const size_t first = seen.begin / kPagePositions;
  const size_t last = (seen.end - 1) / kPagePositions;
  for (size_t page = first; page <= last; ++page) {
    next.fetch_share();
    score_page(block, tile, s, operands.keys(page, fetch), operands.key_type(), page);
  }
  const Span pages{page_span(first).begin, page_span(last).end};
  softmax(block, tile, s, pages);
  if (block.values() == KvNumberFormat::kInt4) return add_nibble_values(block, tile, s, operands, next, fetch);
  if (block.values() == KvNumberFormat::kInt8) {
    __builtin_memset(s.totals, 0, 2 * kAttendPassRows * block.v_dim * sizeof(int32_t));
  }
  for (size_t page = first; page <= last; ++page) {
    next.fetch_share();
    value_page(block, tile, s, operands.values(page, fetch), operands.value_type(), page);
  }
  if (block.values() == KvNumberFormat::kInt8) finish_codes(block, tile, s);
}

void attend_tile(const KvHeadBlock& block, const AttendTile& tile, std::byte* memory) {
  const TileScratch s(memory, tile.n_rows, block);
  if (is_coded(block.keys()) && !tile.same_rows) quantize_queries(block, tile, s);
  const Span seen = begin_rows(block, tile, s);
  if (is_empty(seen)) return;
  const Operands operands(block, tile, s, seen.begin / kPagePositions, (seen.end - 1) / kPagePositions);
  operands.widen_all(seen);
  const size_t n_passes = (tile.n_rows + kAttendPassRows - 1) / kAttendPassRows;
  // With few rows, data is prefetched as it streams. With many rows, and with latent rows (whose values are in a
  // buffer), the next block is prefetched in small shares (NextBlock).
  const bool few = tile.n_rows <= kWidenRows && !block.is_latent();
  AttendTile hint = tile;
  if (few) hint.n_next = 0;
  NextBlock next(block, hint, n_passes * 2 * kAttentionBlock / kPagePositions);
  for (size_t first = 0; first < tile.n_rows; first += kAttendPassRows) {
    attend_pass(block, pass_of(tile, first), s.from(first, block.nibble_groups()), operands, next, few && first == 0);
  }
}

// Computes the factors a and b of 16 rows at a time, then the outputs row by row.
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
  table.hadamard = hadamard;
  table.kv_store = kv_store;
  table.kv_load = ref_kv_load;
  table.latent_values = latent_values;
  table.attend_tile = attend_tile;
  table.attend_merge = attend_merge;
}

}  // namespace
}  // namespace ibid::IBID_ISA
