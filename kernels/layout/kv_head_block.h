// KvHeadBlock: format and layout of the keys and values of one head in one page, with their constants. KvPartOrder: the
// address of each number in a block. Pure data and arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ibid/numerics.h"

namespace ibid {

// Keys and values of one KV head over one page of 64 positions, as attention reads them.
//   F32, F16: K [4 groups][head_dim][16 positions], V [64 positions][v_dim]
//   INT8:     K [4 groups][k_dim / 4][16 positions][4], V [64 / 4][v_dim][4 positions], both with one float scale per
//             position: x ~ scale * q, scale = max|x| / 127, q = round to nearest even of x * (127 / max|x|)
//   INT4:     K [4 groups][k_dim / 8][16 positions][4], dimensions d and d + 4 of eight in a byte, d in the low bits;
//             V [64 / 4][head_dim / 32][16][4 positions], dimensions d and d + 16 of 32 in a byte. A position has a
//             scale and a minimum for every 32 dimensions, in half precision: [head_dim / 32][scale, minimum][64].
//             x ~ minimum + scale * q, scale = (max - minimum) / 15, q = round of (x - minimum) / scale, in 0..15,
//             computed with the stored (rounded) scale and minimum; max and minimum saturate at +-65504 first
// k_dim = head_dim rounded up to 4 (INT4: 32); v_dim = head_dim rounded up to 16, stored rounded up to 32 in INT4; the
// padding is zero. F16 rounds to nearest even and saturates at +-65504. INT8 rows whose largest magnitude is below
// kMinBlockMagnitude are stored as zeros. INT8 keys are stored as q + 128, like 8-bit weights; values as q.
// KvRowFormat holds the formats of keys and values; they may differ, also between layers.
//
// INT8 and INT4 parts are rotated: the stored numbers are the Hadamard transform of the head
// (kernels/layout/hadamard.h). Float parts are stored unrotated.
//
// A latent row (multi-head latent attention) is both key and value: its first latent_dim dimensions are the value, and
// there is no V. Its two parts, those dimensions and the remaining ones, are rotated separately, and in INT8 have
// separate scales, because their magnitudes differ; both are whole groups of 32. A latent row has the format of keys.
// Kernels::latent_values copies its values into the layout of V.

inline constexpr size_t kMaxHeadDim = 1024;     // dimensions of a head
inline constexpr size_t kPagePositions = 64;    // positions of a page
inline constexpr size_t kKeyGroup = 16;         // positions that are interleaved in K
inline constexpr size_t kValueGroup = 4;        // positions that are interleaved in V of INT8 and INT4
inline constexpr size_t kNibbleGroup = 32;      // dimensions that share scale and minimum in INT4
inline constexpr size_t kLatentUnit = 32;       // latent_dim and the rest of a latent row are multiples of this
inline constexpr size_t kAttentionBlock = 256;  // positions of a partial softmax; partial results are merged in order

// Storage format of the keys, or of the values, of a head.
enum class KvNumberFormat : uint8_t { kF32, kF16, kInt8, kInt4 };

// True for integer formats, which have scales and are stored rotated (Hadamard-transformed).
constexpr bool is_coded(KvNumberFormat part) { return part >= KvNumberFormat::kInt8; }

// The formats of a layer's keys and values.
struct KvRowFormat {
  KvNumberFormat keys = KvNumberFormat::kF32;
  KvNumberFormat values = KvNumberFormat::kF32;

  // Converts a KV type to the formats of keys and values. Single layers may have other formats
  // (model/weights/kv_precision.h).
  constexpr KvRowFormat(KvDType dtype)  // NOLINT: implicit, because every KV type is a format
      : keys(dtype == KvDType::kK8V4   ? KvNumberFormat::kInt8
             : dtype == KvDType::kInt4 ? KvNumberFormat::kInt4
                                       : KvNumberFormat(dtype)),
        values(dtype >= KvDType::kK8V4 ? KvNumberFormat::kInt4 : KvNumberFormat(dtype)) {}
  constexpr KvRowFormat(KvNumberFormat k, KvNumberFormat v) : keys(k), values(v) {}
  bool operator==(const KvRowFormat&) const = default;
};

// Byte offsets of keys, values and their scales inside one head's block, and the block's size; all multiples of 64.
struct KvHeadBlock {
  KvRowFormat format{KvDType::kF32};
  size_t head_dim = 0;
  size_t latent_dim = 0;        // number of leading dimensions of a key that are the value; 0: separate values
  size_t k_dim = 0, v_dim = 0;  // INT8, INT4: dimensions of K, and of V, with padding
  // Latent rows: v is an offset in the output of latent_values(), and v_scale equals k_scale.
  size_t k = 0, k_scale = 0, v = 0, v_scale = 0;
  size_t bytes = 0;
  KvNumberFormat keys() const { return format.keys; }
  KvNumberFormat values() const { return is_latent() ? keys() : format.values; }
  bool is_latent() const { return latent_dim != 0; }
  size_t value_dim() const { return is_latent() ? latent_dim : head_dim; }
  size_t nibble_groups() const { return (head_dim + kNibbleGroup - 1) / kNibbleGroup; }  // scales of a key in INT4
  size_t value_groups() const { return (value_dim() + kNibbleGroup - 1) / kNibbleGroup; }
  // REQUIRES: 0 < head_dim <= kMaxHeadDim, latent_dim < head_dim; if latent_dim != 0, both are multiples of
  // kLatentUnit.
  static KvHeadBlock make(KvRowFormat format, size_t head_dim, size_t latent_dim = 0);  // kv_head_block.cc
};

// KvPartOrder: memory layout of one head's keys, or of its values, in a KvHeadBlock, whose comment describes the
// layouts. All code that needs the address of a stored number uses KvPartOrder: the sizes of a block, the kernels that
// store rows, the copying of rows, and the check that rows are finite.
//   part:   groups of positions
//   group:  cells
//   cell:   the positions of the group, adjacent, each with the same `cell_dims` dimensions
// Always inlined, because it is compiled for several instruction sets. The numbers of positions, dimensions and bytes
// are powers of two, stored as exponents, so that an address needs no division.
struct KvPartOrder {
  size_t offset;          // offset of the keys, or of the values, in the block
  size_t n_cells;         // cells per group
  unsigned group_bits;    // log2 of the positions of a group
  unsigned cell_bits;     // log2 of the dimensions of a position in a cell
  unsigned element_bits;  // log2 of the bytes of a number
  // If not kNoPairs, a byte holds two dimensions whose indices differ only in this bit; the dimension without the bit
  // is in the low four bits. Cells then consist of bytes, one for two dimensions.
  unsigned pair_bit = kNoPairs;

  static constexpr unsigned kNoPairs = 31;

  [[gnu::always_inline]] size_t group() const { return size_t{1} << group_bits; }
  [[gnu::always_inline]] size_t cell_dims() const { return size_t{1} << cell_bits; }
  [[gnu::always_inline]] bool paired() const { return pair_bit != kNoPairs; }
  // cell_bytes(): bytes of one position in a cell. cell_stride(): bytes from a position's cell to its next one.
  [[gnu::always_inline]] size_t cell_bytes() const { return size_t{1} << (cell_bits + element_bits); }
  [[gnu::always_inline]] size_t cell_stride() const { return cell_bytes() << group_bits; }
  [[gnu::always_inline]] size_t group_bytes() const { return n_cells * cell_stride(); }
  [[gnu::always_inline]] size_t bytes() const { return (kPagePositions >> group_bits) * group_bytes(); }
  // Byte offset in the block of dimension d of a position.
  [[gnu::always_inline]] size_t at(size_t position, size_t d) const {
    const size_t low = (size_t{1} << pair_bit) - 1;
    return element_offset(position, paired() ? (d >> 1 & ~low) | (d & low) : d);
  }
  // True if dimension d is stored in the high half of its byte.
  [[gnu::always_inline]] bool is_high(size_t d) const { return paired() && (d >> pair_bit & 1) != 0; }
  // Returns the byte offset in the block of stored element d of a position: a number, or a byte that holds two numbers.
  [[gnu::always_inline]] size_t element_offset(size_t position, size_t d) const {
    return offset + (position >> group_bits) * group_bytes() + (d >> cell_bits) * cell_stride() +
           (position & (group() - 1)) * cell_bytes() + ((d & (cell_dims() - 1)) << element_bits);
  }
};

inline constexpr unsigned kKeyGroupBits = 4;
inline constexpr unsigned kValueGroupBits = 2;
static_assert(kKeyGroup == 1u << kKeyGroupBits && kValueGroup == 1u << kValueGroupBits);

// In INT8 and INT4 keys a cell has four bytes per position, because a byte dot product (vpdpbusd) multiplies four.
[[gnu::always_inline]] inline KvPartOrder key_order(const KvHeadBlock& block) {
  switch (block.keys()) {
    case KvNumberFormat::kF32: return {block.k, block.head_dim, kKeyGroupBits, 0, 2};
    case KvNumberFormat::kF16: return {block.k, block.head_dim, kKeyGroupBits, 0, 1};
    case KvNumberFormat::kInt8: return {block.k, block.k_dim / 4, kKeyGroupBits, 2, 0};
    case KvNumberFormat::kInt4: break;
  }
  return {block.k, block.k_dim / 8, kKeyGroupBits, 2, 0, 2};
}

// In INT8 and INT4 values four positions are interleaved, because a byte dot product multiplies four; F32 and F16
// values are stored row by row. Values of latent rows have this layout only in the output of Kernels::latent_values.
[[gnu::always_inline]] inline KvPartOrder value_order(const KvHeadBlock& block) {
  switch (block.values()) {
    case KvNumberFormat::kF32: return {block.v, block.v_dim, 0, 0, 2};
    case KvNumberFormat::kF16: return {block.v, block.v_dim, 0, 0, 1};
    case KvNumberFormat::kInt8: return {block.v, block.v_dim, kValueGroupBits, 0, 0};
    case KvNumberFormat::kInt4: break;
  }
  return {block.v, block.value_groups() * (kNibbleGroup / 2), kValueGroupBits, 0, 0, 4};
}

// The scales of a head's keys, or of its values: `arrays` consecutive arrays, each with one number per position; a
// number has `bytes` bytes.
struct KvScales {
  size_t arrays;
  size_t bytes;

  static KvScales of(const KvHeadBlock& block, KvNumberFormat part) {
    if (part == KvNumberFormat::kInt8) return {block.is_latent() ? size_t{2} : size_t{1}, sizeof(float)};
    if (part == KvNumberFormat::kInt4) return {2 * block.nibble_groups(), sizeof(uint16_t)};
    return {0, 0};
  }
  size_t array_bytes() const { return kPagePositions * bytes; }
  size_t all_bytes() const { return arrays * array_bytes(); }
};

// Index of the scale of an INT4 group, counted in halves from the first scale of the keys or of the values; the index
// of its minimum is kPagePositions higher.
[[gnu::always_inline]] inline size_t nibble_scale(size_t group, size_t position) {
  return 2 * group * kPagePositions + position;
}

// Copies the first n_rows positions of a head's block, including scales, and leaves the rest of `to` unchanged. Returns
// the bytes copied. REQUIRES: n_rows <= kPagePositions; the blocks do not overlap.
size_t copy_head_rows(const KvHeadBlock& block, const std::byte* from, std::byte* to, size_t n_rows);

}  // namespace ibid
