// Packed weights: the layout that every linear kernel reads.
//
// A weight matrix W [n_rows (outputs), n_cols (inputs)] is divided into panels of 16 rows. Within a panel the 16
// rows are the 16 lanes of a vector, so one output is one lane, its sum over k runs in increasing k in one
// accumulator, and no sum is ever split or reordered. This makes results independent of instruction set, thread
// count and the number of input rows.
//   panel:  chunk 0 | chunk 1 | ...                  64-byte aligned
//   chunk:  scales [groups][16] | mins [groups][16] (m types) | codes               64 columns; scales, mins: halves
//   chunk of types with super scales:  d [16] | dmin [16] (types with mins) | scales [groups][16] | mins [groups][16]
//           | padding to 64 bytes | codes    256 columns, one block of the file; d, dmin: halves; scales, mins: int8
// Codes of a quantised chunk, per block of 32 columns (k = 0..31), for row r of the panel:
//   8 bit   [8][16][4]   byte [j][r][i] is the code of k = 4 j + i, stored as code + 128 (unsigned)
//   4 bit   [4][16][4]   byte [j][r][i]: low nibble k = 4 j + i, high nibble k = 16 + 4 j + i
//   6 bit   as 4 bit, then two vectors of high bits: bits 2 m and 2 m + 1 of byte [v][r][i] are the high bits of
//           k = 4 (4 v + m) + i
//   2 bit   [2][16][4]   bits 2 m and 2 m + 1 of byte [v][r][i] are the code of k = 4 (4 v + m) + i
//   5 bit   as 4 bit, then the fifth bits: 16 x uint32 per block; bit 8 i + j of word r is the fifth bit of
//           k = 4 j + i, so one shift by j moves it to bit 0 of byte i for all four i
// vpdpbusd multiplies 4 consecutive k in one 32-bit lane. If the last chunk of a row has fewer blocks than a full
// chunk, the missing blocks are zero.
//
// | type | from                | scales       | value                       |
// |------|---------------------|--------------|-----------------------------|
// | kP4  | Q4_0, TQ1_0, TQ2_0  | f16 per 32   | s (c - 8)                   |
// | kP4m | Q4_1                | f16 per 32   | s c + m                     |
// | kP4k | Q4_K                | d sc per 32  | s c + m   (s = d sc, m = -(dmin mn), exact) |
// | kP5  | Q5_0                | f16 per 32   | s (c - 16)                  |
// | kP5m | Q5_1                | f16 per 32   | s c + m                     |
// | kP5k | Q5_K                | d sc per 32  | s c + m                     |
// | kP8  | Q8_0                | f16 per 32   | s c                         |
// | kP6k | Q6_K, Q3_K          | d sc per 16  | s (c - 32)                  |
// | kP2k | Q2_K                | d sc per 16  | s c + m     (mins per 16, too) |
// | kP4e | MXFP4               | bfloat per 32 | s t[c], t: E2M1             |
// | kP4f | NVFP4               | f16 per 16   | s t[c], t: E2M1             |
// | kP4n | IQ4_NL              | f16 per 32   | s t[c], t: IQ4              |
// | kP4nk | IQ4_XS             | d sc per 32  | s t[c], t: IQ4              |
// | kP3s, kP3x, kP2x, kP1s | IQ3_S, IQ3_XXS, IQ2_XXS, IQ1_S | d sc / 8 per 32 | s t[c], t: the type's |
// | kP2s, kP1m | IQ2_S and IQ2_XS, IQ1_M | d sc / 8 per 16 | s t[c], t: the type's |
// | kPH  | F16                 | none         | [k][16] halfs               |
// | kPB  | BF16                | none         | [k][16] bfloats             |
// | kPE4, kPE5 | F8_E4M3, F8_E5M2 with scales | float per 32 | s h(byte), rounded to float |
// | kPF  | F32 (and types without an exact panel) | none | [k][16] floats |
//
// t[c] is the value of code c in a table of 16 (base/number_formats.h). Some file formats store one index into a
// codebook for four or eight numbers. The entries of these codebooks have at most 16 distinct values, so a panel stores
// four bits per number instead, which is exact.
//
// Float panels have no chunks: k runs to n_cols, and the panel is padded to 64 bytes. The exceptions are kPE4 and kPE5,
// with one chunk per 32 columns: 16 floats (the rows' scales) and [32][16] bytes. h converts a byte to a half. An E5M2
// byte is the upper byte of a half. The bit fields of E4M3, moved to their places in a half, give 2^-8 of the value, so
// the scales are stored times 2^8.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/number_formats.h"
#include "kernels/layout/panel_formats.h"

namespace ibid {

const char* panel_type_name(PanelType type);

// Returns the panel type that stores a tensor of `dtype` exactly. If several do, returns the one with the fewest bits;
// if none does, kPF. REQUIRES: dtype is a float or quantised type, or kF64, which is rounded to floats.
PanelType panel_type_for(DType dtype);

inline bool panel_is_f8(PanelType type) { return type == PanelType::kPE4 || type == PanelType::kPE5; }
inline constexpr size_t kF8ChunkBytes = kPanelRows * sizeof(float) + kQuantBlock * kPanelRows;  // bytes for 32 columns
// Factor by which the file's scales are multiplied when they are stored.
inline float f8_scale_factor(PanelType type) { return type == PanelType::kPE4 ? 256.0f : 1.0f; }
// Converts a byte of kPE4 (to 2^-8 of its value) or kPE5 to a half.
inline uint16_t f8_half(PanelType type, uint8_t byte) {
  if (type == PanelType::kPE5) return static_cast<uint16_t>(byte << 8);
  return static_cast<uint16_t>((byte & 0x80) << 8 | (byte & 0x7f) << 7);
}

// REQUIRES: !panel_is_float(type).
PanelFormat panel_format(PanelType type);

// Returns the lookup table for byte shuffles, indexed by stored code: value + offset, repeated four times, 64-byte
// aligned; nullptr for types without a table.
const uint8_t* panel_lookup(PanelType type);

// Return the scale, or the min (for types with mins), of row `lane` in group 0 .. groups_per_chunk() - 1 of a chunk,
// bit for bit as the kernels compute it.
float panel_scale(const PanelFormat& format, const std::byte* chunk, size_t group, size_t lane);
float panel_min(const PanelFormat& format, const std::byte* chunk, size_t group, size_t lane);

// Returns the value of column k of row `lane` in a panel of kPE4 or kPE5, bit for bit as the kernels compute it.
float f8_value(PanelType type, const std::byte* panel, size_t k, size_t lane);

// View of a packed matrix. The bytes are owned by its creator (an Arena).
struct PackedMatrix {
  PanelType type = PanelType::kPF;
  size_t n_rows = 0;                // outputs
  size_t n_cols = 0;                // inputs
  const std::byte* data = nullptr;  // n_panels() panels of panel_bytes(), 64-byte aligned

  [[gnu::always_inline]] size_t n_panels() const { return (n_rows + kPanelRows - 1) / kPanelRows; }
  bool empty() const { return data == nullptr; }
};

// Bytes of one panel, and of the whole packed matrix; multiples of 64.
size_t panel_bytes(PanelType type, size_t n_cols);
size_t packed_bytes(PanelType type, size_t n_rows, size_t n_cols);

// Order in which a packer reads rows: row i of the result is row source_row(i) of the source. A value describes one or
// both of two reorderings.
struct RowOrder {
  // Selects a part of a fused tensor: runs of `block` rows, `stride` apart, from row `first` on. block 0: one run.
  size_t first = 0, block = 0, stride = 0;
  // The first rotary_dim rows of each head of head_dim rows are pairs of adjacent rows 2 i + s, s = 0 or 1. Row 2 i + s
  // becomes row i + s rotary_dim / 2, because Kernels::rope pairs row i with row i + rotary_dim / 2. 0: not reordered.
  size_t head_dim = 0, rotary_dim = 0;

  static RowOrder halves_of_pairs(size_t head_dim, size_t rotary_dim) { return {0, 0, 0, head_dim, rotary_dim}; }
  size_t source_row(size_t row) const;
};

}  // namespace ibid
