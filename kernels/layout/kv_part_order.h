// KvPartOrder: the order in which the bytes of one head's keys, or of its values, lie in a KvHeadBlock
// (kernels/layout/kv_head_block.h draws it). Everything that computes where a number of a page is uses it: the sizes of
// a block, the kernels that store rows, the copying of rows, and the check that rows are finite.
//
//   part:   groups of positions
//   group:  cells
//   cell:   the positions of the group, side by side, each with the same `cell_dims` dimensions
//
// Pure arithmetic. Always inlined, because it is compiled for several instruction sets.
#pragma once

#include <cstddef>

#include "kernels/layout/kv_head_block.h"

namespace ibid {

// The numbers of positions, dimensions and bytes are powers of two, and are kept as their exponents: a place is found
// without a division.
struct KvPartOrder {
  size_t offset;          // of the part, in the block
  size_t n_cells;         // of a group
  unsigned group_bits;    // positions that lie side by side
  unsigned cell_bits;     // dimensions of a position in a cell
  unsigned element_bits;  // bytes of a number
  // Two numbers in a byte, if not kNoPairs: dimensions that differ in this bit alone, that without it in the low four
  // bits. Cells then count bytes, one for two dimensions.
  unsigned pair_bit = kNoPairs;

  static constexpr unsigned kNoPairs = 31;

  [[gnu::always_inline]] size_t group() const { return size_t{1} << group_bits; }
  [[gnu::always_inline]] size_t cell_dims() const { return size_t{1} << cell_bits; }
  [[gnu::always_inline]] bool paired() const { return pair_bit != kNoPairs; }
  // Of one position in a cell; and between one position's cells.
  [[gnu::always_inline]] size_t cell_bytes() const { return size_t{1} << (cell_bits + element_bits); }
  [[gnu::always_inline]] size_t cell_stride() const { return cell_bytes() << group_bits; }
  [[gnu::always_inline]] size_t group_bytes() const { return n_cells * cell_stride(); }
  [[gnu::always_inline]] size_t bytes() const { return (kPagePositions >> group_bits) * group_bytes(); }
  // Where dimension d of a position begins, in the block.
  [[gnu::always_inline]] size_t at(size_t position, size_t d) const {
    const size_t low = (size_t{1} << pair_bit) - 1;
    return of_cell(position, paired() ? (d >> 1 & ~low) | (d & low) : d);
  }
  // Whether it has the high half of its byte.
  [[gnu::always_inline]] bool is_high(size_t d) const { return paired() && (d >> pair_bit & 1) != 0; }
  // The same as at(), d counted in numbers, or pairs of them, as cells hold them.
  [[gnu::always_inline]] size_t of_cell(size_t position, size_t d) const {
    return offset + (position >> group_bits) * group_bytes() + (d >> cell_bits) * cell_stride() +
           (position & (group() - 1)) * cell_bytes() + ((d & (cell_dims() - 1)) << element_bits);
  }
};

inline constexpr unsigned kKeyGroupBits = 4;
inline constexpr unsigned kValueGroupBits = 2;
static_assert(kKeyGroup == 1u << kKeyGroupBits && kValueGroup == 1u << kValueGroupBits);

// INT8 and INT4 keys have four bytes in a cell: a product of bytes takes them at once.
[[gnu::always_inline]] inline KvPartOrder key_order(const KvHeadBlock& block) {
  switch (block.keys()) {
    case KvPart::kF32: return {block.k, block.head_dim, kKeyGroupBits, 0, 2};
    case KvPart::kF16: return {block.k, block.head_dim, kKeyGroupBits, 0, 1};
    case KvPart::kInt8: return {block.k, block.k_dim / 4, kKeyGroupBits, 2, 0};
    case KvPart::kInt4: break;
  }
  return {block.k, block.k_dim / 8, kKeyGroupBits, 2, 0, 2};
}

// INT8 and INT4 values have four positions side by side, for the same reason; others lie row by row. Those of latent
// rows are in this order only in what Kernels::latent_values wrote.
[[gnu::always_inline]] inline KvPartOrder value_order(const KvHeadBlock& block) {
  switch (block.values()) {
    case KvPart::kF32: return {block.v, block.v_dim, 0, 0, 2};
    case KvPart::kF16: return {block.v, block.v_dim, 0, 0, 1};
    case KvPart::kInt8: return {block.v, block.v_dim, kValueGroupBits, 0, 0};
    case KvPart::kInt4: break;
  }
  return {block.v, block.value_groups() * (kNibbleGroup / 2), kValueGroupBits, 0, 0, 4};
}

// The scales of a part, of 64 positions each: `arrays` of them, one behind the other, of numbers of `bytes` bytes.
struct KvScales {
  size_t arrays;
  size_t bytes;

  static KvScales of(const KvHeadBlock& block, KvPart part) {
    if (part == KvPart::kInt8) return {block.is_latent() ? size_t{2} : size_t{1}, sizeof(float)};
    if (part == KvPart::kInt4) return {2 * block.nibble_groups(), sizeof(uint16_t)};
    return {0, 0};
  }
  size_t array_bytes() const { return kPagePositions * bytes; }
  size_t all_bytes() const { return arrays * array_bytes(); }
};

// Where the scale of a group of INT4 lies among its part's, counted in halves; its minimum is kPagePositions behind.
[[gnu::always_inline]] inline size_t nibble_scale(size_t group, size_t position) {
  return 2 * group * kPagePositions + position;
}

// Copies the first n_rows positions of a head's block, scales included, and touches nothing else of `to`. Returns the
// bytes copied. REQUIRES: n_rows <= kPagePositions; the blocks do not overlap.
size_t copy_head_rows(const KvHeadBlock& block, const std::byte* from, std::byte* to, size_t n_rows);

}  // namespace ibid
