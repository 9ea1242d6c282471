// Where a block's keys and values are read from, and what is asked for meanwhile. Included once per instruction set.
#pragma once

#include "kernels/simd/attend_rows-inl.h"

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
        unequal_(block.keys() != block.values()),
        distance_(unequal_ ? n_pages_ : (kFetchAhead + block.k_scale - 1) / block.k_scale),
        keys_widened_(tile.n_rows > kWidenRows && block.keys() == KvPart::kF16),
        values_widened_(tile.n_rows > kWidenRows && block.values() == KvPart::kF16) {}

  KvPart key_type() const { return keys_widened_ ? KvPart::kF32 : block_.keys(); }
  KvPart value_type() const { return values_widened_ ? KvPart::kF32 : block_.values(); }

  // Keys whole, values of positions that some row sees, since all others may hold anything.
  void widen_all(Span seen) const {
    const size_t n_keys = kPagePositions * block_.head_dim, n_values = kPagePositions * block_.v_dim;
    for (size_t page = first_; keys_widened_ && page < first_ + n_pages_; ++page) {
      widen<uint16_t>(tile_.heads[page] + block_.k, n_keys, s_.keys + page * n_keys);
    }
    for (size_t page = first_; values_widened_ && page < first_ + n_pages_; ++page) {
      const Span here = intersect(seen, page_span(page));
      const size_t skipped = (here.begin - page * kPagePositions) * block_.v_dim;
      widen<uint16_t>(values_of(block_, tile_, page) + skipped * sizeof(uint16_t),
                      (here.end - here.begin) * block_.v_dim, s_.values + page * n_values + skipped);
    }
  }

  // `fetch`: while they are read, what comes after them is asked for. REQUIRES: not of latent rows.
  Stream keys(size_t page, bool fetch) const {
    if (keys_widened_) return in_scratch(s_.keys + page * kPagePositions * block_.head_dim);
    if (fetch) fetch_scales(page - first_);
    return {tile_.heads[page] + block_.k, fetch ? part(page - first_ + distance_) : nullptr};
  }
  Stream values(size_t page, bool fetch) const {
    if (values_widened_) return in_scratch(s_.values + page * kPagePositions * block_.v_dim);
    return {values_of(block_, tile_, page), fetch ? part(n_pages_ + page - first_ + distance_) : nullptr};
  }

  // Bytes to ask for with each that is read of values: keys in INT8 are twice as long as values in INT4. Without them a
  // decoding thread waited for every other line (1.2 to 1.4 times as long behind 4,096 and 16,384 positions).
  size_t ahead_of_values() const { return unequal_ ? 2 : 1; }

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
  const bool unequal_;      // keys are longer than values: then keys ask for values, and values for the next keys
  const size_t distance_;   // in pages' keys or values
  const bool keys_widened_, values_widened_;
};

}  // namespace
}  // namespace ibid::IBID_ISA
