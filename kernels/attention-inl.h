// Attention of some query rows over one block of 256 positions. Included after vec_<isa>.h, once per
// instruction set; ref_attention.cc is the scalar twin and kernels.h states the formulas.
//
// However rows are tiled, every sum is one accumulator in one order. Scores of positions that a row does not
// see are computed along with the others and replaced by -inf; their values are never multiplied at all.
#pragma once

#include "kernels/attend_scores-inl.h"
#include "kernels/attend_softmax-inl.h"
#include "kernels/attend_values-inl.h"
#include "kernels/ref.h"

namespace ibid::IBID_ISA {
namespace {

// Above it, floats are made of keys and values once; for few rows that does not pay.
constexpr size_t kWidenRows = 3 * kTileRows;

// Keys and values of a block's pages [first, last], as its rows will read them: in place, or as floats in the
// scratch, so that many rows need not convert them again and again.
class Operands {
 public:
  Operands(const KvHeadBlock& block, const AttendTile& tile, const TileScratch& s, size_t first, size_t last)
      : block_(block), tile_(tile), s_(s), first_(first), last_(last) {
    const bool many = tile.n_rows > kWidenRows;
    widened_keys_ = many && block.dtype == KvDType::kF16;
    widened_values_ = many && block.dtype == KvDType::kF16;
  }

  KvDType key_type() const { return widened_keys_ ? KvDType::kF32 : block_.dtype; }
  KvDType value_type() const { return widened_values_ ? KvDType::kF32 : block_.dtype; }

  void widen_keys() const {
    if (!widened_keys_) return;
    const size_t n = kPagePositions * block_.head_dim;
    for (size_t page = first_; page <= last_; ++page) {
      widen<uint16_t>(stored_keys(page), 0, n, s_.keys + page * n);
    }
  }
  // Of positions that some row sees, since all others may hold anything.
  void widen_values(Span seen) const {
    if (!widened_values_) return;
    const size_t n = kPagePositions * block_.v_dim;
    for (size_t page = first_; page <= last_; ++page) {
      const Span here = intersect(seen, page_span(page));
      const size_t begin = (here.begin - page * kPagePositions) * block_.v_dim;
      const size_t count = (here.end - here.begin) * block_.v_dim;
      widen<uint16_t>(stored_values(page), begin, count, s_.values + page * n);
    }
  }

  // `fetch`: nobody has read them yet.
  Stream keys(size_t page, bool fetch) const {
    if (widened_keys_) return in_scratch(s_.keys + page * kPagePositions * block_.head_dim);
    return fetch ? stored_keys(page) : Stream{tile_.heads[page] + block_.k, nullptr, 0};
  }
  Stream values(size_t page, bool fetch) const {
    if (widened_values_) return in_scratch(s_.values + page * kPagePositions * block_.v_dim);
    return fetch ? stored_values(page) : Stream{tile_.heads[page] + block_.v, nullptr, 0};
  }

 private:
  static Stream in_scratch(const float* p) { return {reinterpret_cast<const std::byte*>(p), nullptr, 0}; }
  Stream stored_keys(size_t page) const {
    const std::byte* after = tile_.heads[first_] + block_.v;
    return page_stream(tile_, page, last_, block_.k, block_.k_scale - block_.k, after);
  }
  Stream stored_values(size_t page) const {
    const std::byte* after = tile_.n_next == 0 ? nullptr : tile_.next_heads[0];
    return page_stream(tile_, page, last_, block_.v, block_.v_scale - block_.v, after);
  }

  const KvHeadBlock& block_;
  const AttendTile& tile_;
  const TileScratch& s_;
  const size_t first_, last_;
  bool widened_keys_, widened_values_;
};

// The rows of `tile`, few enough for their scores to stay in the first-level cache, against the whole block.
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
  softmax(block, tile, s, {page_span(first).begin, page_span(last).end});
  const bool int8 = block.dtype == KvDType::kInt8;
  if (int8) __builtin_memset(s.totals, 0, 2 * kAttendPassRows * block.v_dim * sizeof(int32_t));
  for (size_t page = first; page <= last; ++page) {
    next.fetch_share();
    value_page(block, tile, s, operands.values(page, fetch), operands.value_type(), page);
  }
  if (int8) finish_codes(block, tile, s);
}

void attend_tile(const KvHeadBlock& block, const AttendTile& tile, std::byte* memory) {
  const TileScratch s(memory, tile.n_rows, block);
  if (block.dtype == KvDType::kInt8 && !tile.same_rows) quantize_queries(block, tile, s);
  const Span seen = begin_rows(block, tile, s);
  if (is_empty(seen)) return;
  const Operands operands(block, tile, s, seen.begin / kPagePositions, (seen.end - 1) / kPagePositions);
  operands.widen_keys();
  operands.widen_values(seen);
  const size_t n_passes = (tile.n_rows + kAttendPassRows - 1) / kAttendPassRows;
  AttendTile hint = tile;
  if (tile.n_rows <= kWidenRows) hint.n_next = 0;   // few rows fetch as they go
  NextBlock next(block, hint, n_passes * 2 * kAttentionBlock / kPagePositions);
  for (size_t first = 0; first < tile.n_rows; first += kAttendPassRows) {
    attend_pass(block, pass_of(tile, first), s.from(first), operands, next, first == 0);
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
