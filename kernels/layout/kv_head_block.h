// KvHeadBlock: the keys and values of one head in one page, and the constants that they are made by; and
// KvPartOrder: where each number lies. Pure data and arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ibid/numerics.h"

namespace ibid {

// Keys and values of one KV head over one page of 64 positions, as attention reads them.
//   F32, F16: K [4 groups][head_dim][16 positions], V [64 positions][v_dim]
//   INT8:     K [4 groups][k_dim / 4][16 positions][4], V [64 / 4][v_dim][4 positions], one float scale per
//             position for each: x ~ scale * q, scale = max|x| / 127, q = round to nearest even of x * (127 / max|x|)
//   INT4:     K [4 groups][k_dim / 8][16 positions][4], dimensions d and d + 4 of eight in a byte, d in the low bits;
//             V [64 / 4][head_dim / 32][16][4 positions], dimensions d and d + 16 of 32 in a byte. A position has a
//             scale and a minimum for every 32 dimensions, in half precision: [head_dim / 32][scale, minimum][64].
//             x ~ minimum + scale * q, scale = (max - minimum) / 15, q = round of (x - minimum) / scale, in 0..15,
//             with both as they are stored; the largest and the smallest number saturate at +-65504 before
// k_dim = head_dim rounded up to 4, of INT4 to 32; v_dim = head_dim rounded up to 16, and stored of INT4 to 32; the
// padding is zero. F16 rounds to nearest even and saturates at +-65504. INT8 rows whose largest magnitude is below
// kTinyBlock are zeros. INT8 keys are stored as q + 128, as 8-bit weights are; values as q.
// KvRowFormat says which part has which; keys and values may differ, and so may layers.
//
// INT8 and INT4 parts are rotated: the stored numbers are the Hadamard transform of the head
// (kernels/layout/hadamard.h). Float parts are stored as they are.
//
// A latent row (multi-head latent attention) is key and value at once: its first latent_dim dimensions are the value,
// and there is no V. Both parts of it, those dimensions and the ones behind them, are rotated by themselves, and have a
// scale of their own in INT8, since they differ in size; both are whole groups of 32. As its one row is a key, it has
// the format of keys. Kernels::latent_values puts its values into the order of V.

inline constexpr size_t kMaxHeadDim = 1024;     // dimensions of a head
inline constexpr size_t kPagePositions = 64;    // positions of a page
inline constexpr size_t kKeyGroup = 16;         // positions that lie side by side in K
inline constexpr size_t kValueGroup = 4;        // and in V of INT8
inline constexpr size_t kNibbleGroup = 32;      // dimensions that share scale and minimum in INT4
inline constexpr size_t kLatentUnit = 32;       // both parts of a latent row are multiples of it
inline constexpr size_t kAttentionBlock = 256;  // positions whose softmax is one unit; merged in order

// How the keys, or the values, of a head are stored.
enum class KvPart : uint8_t { kF32, kF16, kInt8, kInt4 };

constexpr bool is_coded(KvPart part) { return part >= KvPart::kInt8; }  // integers with scales; they are rotated

// The formats of a layer's keys and values.
struct KvRowFormat {
  KvPart keys = KvPart::kF32;
  KvPart values = KvPart::kF32;

  // The format that a KV type has in layers without exceptions (model/weights/kv_precision.h).
  constexpr KvRowFormat(KvDType dtype)  // NOLINT: every KV type is a format
      : keys(dtype == KvDType::kK8V4 ? KvPart::kInt8 : dtype == KvDType::kInt4 ? KvPart::kInt4 : KvPart(dtype)),
        values(dtype >= KvDType::kK8V4 ? KvPart::kInt4 : KvPart(dtype)) {}
  constexpr KvRowFormat(KvPart k, KvPart v) : keys(k), values(v) {}
  bool operator==(const KvRowFormat&) const = default;
};

// Byte offsets of the four parts inside one head's block, and its size; all multiples of 64.
struct KvHeadBlock {
  KvRowFormat format{KvDType::kF32};
  size_t head_dim = 0;
  size_t latent_dim = 0;        // of a key, its first dimensions that are its value; 0: values are stored beside keys
  size_t k_dim = 0, v_dim = 0;  // INT8, INT4: dimensions of K with padding; of V with padding
  // Of latent rows v is where their values begin in what latent_values() wrote, and v_scale is k_scale.
  size_t k = 0, k_scale = 0, v = 0, v_scale = 0;
  size_t bytes = 0;
  KvPart keys() const { return format.keys; }
  KvPart values() const { return is_latent() ? keys() : format.values; }
  bool is_latent() const { return latent_dim != 0; }
  size_t value_dim() const { return is_latent() ? latent_dim : head_dim; }
  size_t nibble_groups() const { return (head_dim + kNibbleGroup - 1) / kNibbleGroup; }       // of a key
  size_t value_groups() const { return (value_dim() + kNibbleGroup - 1) / kNibbleGroup; }
  // REQUIRES: 0 < head_dim <= kMaxHeadDim; latent_dim < head_dim, and both are multiples of kLatentUnit where there is
  // one.
  static KvHeadBlock make(KvRowFormat format, size_t head_dim, size_t latent_dim = 0);  // kv_head_block.cc
};

// KvPartOrder: the order in which the bytes of one head's keys, or of its values, lie in a KvHeadBlock
// (KvHeadBlock's comment draws it). Everything that computes where a number of a page is uses it: the sizes of
// a block, the kernels that store rows, the copying of rows, and the check that rows are finite.
//
//   part:   groups of positions
//   group:  cells
//   cell:   the positions of the group, side by side, each with the same `cell_dims` dimensions
//
// Always inlined, because it is compiled for several instruction sets. The numbers of positions, dimensions and bytes
// are powers of two, and are kept as their exponents: a place is found without a division.
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
