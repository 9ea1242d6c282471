// The quantised blocks of GGUF tensors: what their bytes mean, decoded one row at a time.
//
// It is the readable, exact definition: integer codes plus float scales, with the roundings of ggml's
// dequantize_row_* (https://github.com/ggml-org/ggml, src/ggml-quants.c and src/ggml-common.h). It is not
// fast: at load model/pack_blocks.h makes panels of the same blocks, and kernels/ computes from those.
//
// Stateless; every function is safe to call from several threads. Bytes may be unaligned.
//
// A row is a sequence of blocks; a block holds one or more groups of 32 or 16 values that share a scale:
//
//   type  block         bytes, in order                                    value of code c
//   Q8_0  32 in  34 B   d f16 | c int8[32]                                 d c
//   Q4_0  32 in  18 B   d f16 | c nibbles[16]                              d (c - 8)
//   Q4_1  32 in  20 B   d f16 | m f16 | c nibbles[16]                      d c + m
//   Q5_0  32 in  22 B   d f16 | fifth bits u32 | c nibbles[16]             d (c - 16)
//   Q5_1  32 in  24 B   d f16 | m f16 | fifth bits u32 | c nibbles[16]     d c + m
//   Q2_K  256 in  84 B  (sc | mn << 4)[16] | c 2-bit[64] | d f16 | dm f16  (d sc) c - (dm mn)
//   Q3_K  256 in 110 B  third bits[32] | c 2-bit[64] | sc 6-bit[12] | d    (d (sc - 32)) (c - 4)
//   Q4_K  256 in 144 B  d f16 | dm f16 | sc, mn 6-bit[12] | c nibbles[128] (d sc) c - (dm mn)
//   Q5_K  256 in 176 B  as Q4_K with fifth bits[32] before the nibbles     (d sc) c - (dm mn)
//   Q6_K  256 in 210 B  c low nibbles[128] | c high 2-bit[64] | sc int8[16] | d f16   (d sc) (c - 32)
//
// Nibbles of a 32-block: byte j holds value j in its low half and value j + 16 in its high half.
// Every product and sum is one float operation, rounded: (d sc) is rounded before it multiplies c.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace ibid {

inline constexpr size_t kMaxGroupsPerBlock = 16;  // Q2_K, Q3_K, Q6_K
inline constexpr size_t kMaxValuesPerBlock = 256;

// How the codes of a quantised type are grouped along a row. Codes are given without their offset where
// the type is symmetric (Q4_0: -8..7), and as stored where it has mins (Q4_1: 0..15).
//
// | type             | group | mins | codes     | scales and mins are           |
// |------------------|-------|------|-----------|-------------------------------|
// | Q8_0             | 32    | no   | -128..127 | exactly f16 values            |
// | Q4_0             | 32    | no   | -8..7     | exactly f16 values            |
// | Q5_0             | 32    | no   | -16..15   | exactly f16 values            |
// | Q4_1             | 32    | yes  | 0..15     | exactly f16 values            |
// | Q5_1             | 32    | yes  | 0..31     | exactly f16 values            |
// | Q2_K             | 16    | yes  | 0..3      | float products d sc, -(dm mn) |
// | Q3_K             | 16    | no   | -4..3     | float products                |
// | Q4_K             | 32    | yes  | 0..15     | float products                |
// | Q5_K             | 32    | yes  | 0..31     | float products                |
// | Q6_K             | 16    | no   | -32..31   | float products                |
struct QuantLayout {
  size_t group_size;
  bool has_mins;
  int min_code, max_code;
  bool scales_are_f16;
};

// REQUIRES: dtype_is_quantized(dtype).
QuantLayout quant_layout(DType dtype);

// Codes, scales and mins of a row such that, in float arithmetic,
//   value[i] = scales[i / group_size] * codes[i]                          without mins
//   value[i] = scales[i / group_size] * codes[i] + mins[i / group_size]   with mins
// is what ggml computes, bit for bit. Scales may be negative, subnormal, infinite or NaN: they are the
// file's. REQUIRES: dtype_is_quantized(dtype); codes.size() is a whole number of blocks, blocks holds exactly
// them;
//   scales (and mins, where the type has them; otherwise mins is empty) hold codes.size() / group_size.
void unpack_row(DType dtype, std::span<const std::byte> blocks, std::span<int8_t> codes,
                std::span<float> scales, std::span<float> mins);

// Q3_K to Q6_K keep a half per block of 256 and an integer per group: the scale of group g is
// float(d) * scales[g], its min -(float(dmin) * mins[g]), both exact in float (11 bits by 7).
bool has_super_scales(DType dtype);

struct SuperScales {
  std::span<uint16_t> d, dmin;     // [blocks] bits of a half; dmin only of types with mins
  std::span<int8_t> scales, mins;  // [groups]
};

// The codes of unpack_row, with the factors of its scales and mins. REQUIRES: has_super_scales(dtype); sizes as
// for unpack_row.
void unpack_super_row(DType dtype, std::span<const std::byte> blocks, std::span<int8_t> codes,
                      const SuperScales& out);

// True for the types whose rows dequantize_row can decode: F32, F16, BF16 and the quantised ones.
inline bool can_dequantize(DType dtype) { return dtype_is_float(dtype) || dtype_is_quantized(dtype); }

// The row as floats, equal bit for bit to ggml's dequantize_row_* (and to gguf-py's numpy).
// REQUIRES: can_dequantize(dtype); out.size() is a whole number of blocks, blocks holds exactly them.
void dequantize_row(DType dtype, std::span<const std::byte> blocks, std::span<float> out);

}  // namespace ibid
