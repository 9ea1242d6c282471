// Attention of some query rows over one block of 256 positions. Included after vec_<isa>.h, once per
// instruction set; ref_attention.cc is the scalar twin and kernels.h states the formulas.
//
// However rows are tiled, every sum is one accumulator in one order. Scores of positions that a row does not
// see are computed along with the others and replaced by -inf; their values are never multiplied at all.
#pragma once

#include "kernels/attention/attend_scores-inl.h"
#include "kernels/attention/attend_softmax-inl.h"
#include "kernels/attention/attend_values-inl.h"
#include "kernels/twins/ref.h"

namespace ibid::IBID_ISA {
namespace {

// Above it, floats are made of keys and values once; for few rows that does not pay.
constexpr size_t kWidenRows = 3 * kTileRows;

// Keys and values of a block's pages [first, last], as its rows will read them: in place, or as floats in the
// scratch, so that many rows need not convert them again and again.
class Operands {
 public:
  Operands(const KvHeadBlock& block, const AttendTile& tile, const TileScratch& s, size_t first, size_t last)
      : block_(block),
        tile_(tile),
        s_(s),
        first_(first),
        n_pages_(last + 1 - first),
        distance_((kFetchAhead + block.k_scale - 1) / block.k_scale),
        widened_(tile.n_rows > kWidenRows && block.dtype == KvDType::kF16) {}

  KvPart key_type() const { return widened_ ? KvPart::kF32 : block_.keys(); }
  KvPart value_type() const { return widened_ ? KvPart::kF32 : block_.values(); }

  // Keys whole, values of positions that some row sees, since all others may hold anything.
  void widen_all(Span seen) const {
    if (!widened_) return;
    const size_t n_keys = kPagePositions * block_.head_dim, n_values = kPagePositions * block_.v_dim;
    for (size_t page = first_; page < first_ + n_pages_; ++page) {
      widen<uint16_t>(tile_.heads[page] + block_.k, n_keys, s_.keys + page * n_keys);
    }
    for (size_t page = first_; page < first_ + n_pages_; ++page) {
      const Span here = intersect(seen, page_span(page));
      const size_t skipped = (here.begin - page * kPagePositions) * block_.v_dim;
      widen<uint16_t>(tile_.heads[page] + block_.v + skipped * sizeof(uint16_t), (here.end - here.begin) * block_.v_dim,
                      s_.values + page * n_values + skipped);
    }
  }

  // `fetch`: while they are read, what comes after them is asked for.
  Stream keys(size_t page, bool fetch) const {
    if (widened_) return in_scratch(s_.keys + page * kPagePositions * block_.head_dim);
    if (fetch) fetch_scales(page - first_);
    return {tile_.heads[page] + block_.k, fetch ? part(page - first_ + distance_) : nullptr};
  }
  Stream values(size_t page, bool fetch) const {
    if (widened_) return in_scratch(s_.values + page * kPagePositions * block_.v_dim);
    return {tile_.heads[page] + block_.v, fetch ? part(n_pages_ + page - first_ + distance_) : nullptr};
  }

 private:
  static Stream in_scratch(const float* p) { return {reinterpret_cast<const std::byte*>(p), nullptr}; }

  // What few rows read, in order: the keys of the block's pages, their values, and the same of the next block.
  const std::byte* part(size_t i) const {
    if (i < n_pages_) return tile_.heads[first_ + i] + block_.k;
    i -= n_pages_;
    if (i < n_pages_) return tile_.heads[first_ + i] + block_.v;
    i -= n_pages_;
    if (i < tile_.n_next) return tile_.next_heads[i] + block_.k;
    i -= tile_.n_next;
    return i < tile_.n_next ? tile_.next_heads[i] + block_.v : nullptr;
  }

  // The scales of codes lie behind what the loops go through, and those of the values are needed before the values:
  // they are asked for a whole block ahead.
  void fetch_scales(size_t i) const {
    if (i >= tile_.n_next) return;
    const std::byte* head = tile_.next_heads[i];
    for (size_t at = block_.k_scale; at < block_.v; at += 64) prefetch_l2(head + at);
    for (size_t at = block_.v_scale; at < block_.bytes; at += 64) prefetch_l2(head + at);
  }

  const KvHeadBlock& block_;
  const AttendTile& tile_;
  const TileScratch& s_;
  const size_t first_, n_pages_;
  const size_t distance_;   // in pages' keys or values
  const bool widened_;
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
  const Span pages{page_span(first).begin, page_span(last).end};
  softmax(block, tile, s, pages);
  if (block.values() == KvPart::kInt4) encode_nibble_weights(block, tile, s, pages);
  if (block.rotated()) __builtin_memset(s.totals, 0, 2 * kAttendPassRows * block.v_dim * sizeof(int32_t));
  for (size_t page = first; page <= last; ++page) {
    next.fetch_share();
    value_page(block, tile, s, operands.values(page, fetch), operands.value_type(), page);
  }
  if (block.values() == KvPart::kInt8) finish_codes(block, tile, s);
  if (block.values() == KvPart::kInt4) finish_nibbles(block, tile, s);
}

void attend_tile(const KvHeadBlock& block, const AttendTile& tile, std::byte* memory) {
  const TileScratch s(memory, tile.n_rows, block);
  if (block.rotated() && !tile.same_rows) quantize_queries(block, tile, s);
  const Span seen = begin_rows(block, tile, s);
  if (is_empty(seen)) return;
  const Operands operands(block, tile, s, seen.begin / kPagePositions, (seen.end - 1) / kPagePositions);
  operands.widen_all(seen);
  const size_t n_passes = (tile.n_rows + kAttendPassRows - 1) / kAttendPassRows;
  const bool few = tile.n_rows <= kWidenRows;   // they ask as they go, many for a share of the next block at a time
  AttendTile hint = tile;
  if (few) hint.n_next = 0;
  NextBlock next(block, hint, n_passes * 2 * kAttentionBlock / kPagePositions);
  for (size_t first = 0; first < tile.n_rows; first += kAttendPassRows) {
    attend_pass(block, pass_of(tile, first), s.from(first, block.nibble_groups()), operands, next, few && first == 0);
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
  table.hadamard = hadamard;
  table.kv_store = kv_store;
  table.kv_load = ref_kv_load;
  table.attend_tile = attend_tile;
  table.attend_merge = attend_merge;
}

}  // namespace
}  // namespace ibid::IBID_ISA
