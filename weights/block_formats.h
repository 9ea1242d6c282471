// The quantised blocks of GGUF tensors: the meaning of their bytes, decoded one row at a time.
//
// It is the readable, exact definition: integer codes plus float scales, with the roundings of ggml's
// dequantize_row_* (https://github.com/ggml-org/ggml, src/ggml-quants.c and src/ggml-common.h). It is not fast and
// need not be: loading makes panels of the same blocks (model/weights/pack_blocks.h), and kernels/ computes from those.
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
//   TQ1_0    256 in  54 B  c 5 digits to the base of 3[48] | 4 digits[4] | d f16     d (c - 1)
//   TQ2_0    256 in  66 B  c 2-bit[64] | d f16                                       d (c - 1)
//   IQ1_S    256 in  50 B  d f16 | i low 8[32] | (i high 3-bit x4, sc 3-bit, sign) u16[8]    d (2 sc + 1) (t +- 1/8)
//   IQ1_M    256 in  56 B  i low 8[32] | (i high 3-bit, sign)[32 nibbles] | (sc 3-bit x4, d)[4] u16   the same
//   IQ2_XXS  256 in  66 B  d f16 | (i 8-bit x4, signs 7-bit x4, sc 4-bit)[8]         d (sc + 1/2) / 4 (+- t)
//   IQ2_XS   256 in  74 B  d f16 | (i 9-bit, signs 7-bit) u16[32] | sc 4-bit[8]      d (sc + 1/2) / 4 (+- t)
//   IQ2_S    256 in  82 B  d f16 | i low 8[32] | signs[32] | i high 2-bit[8] | sc 4-bit[8]   d (sc + 1/2) / 4 (+- t)
//   IQ3_XXS  256 in  98 B  d f16 | i 8-bit[64] | (signs 7-bit x4, sc 4-bit) u32[8]   d (sc + 1/2) / 2 (+- t)
//   IQ3_S    256 in 110 B  d f16 | i low 8[64] | i high 1-bit[8] | signs[32] | sc 4-bit[4]   d (2 sc + 1) (+- t)
//   IQ4_XS   256 in 136 B  d f16 | sc high 2-bit u16 | sc low nibbles[4] | c nibbles[128]    d (sc - 32) t
//   IQ4_NL   32 in  18 B   d f16 | c nibbles[16]                                     d t
//   F8_E4M3, F8_E5M2 with scales: 32 in 36 B   s f32 | c bytes[32]     s c; of two tensors (weights/made_tensors.h)
//   MXFP4    32 in  17 B   e8m0 | c nibbles[16]                                      2^(e8m0 - 128) t
//   NVFP4    64 in  36 B   ue4m3[4] | c nibbles[32], 8 bytes for 16 values           ue4m3 / 2 t
//
// t is the value of code c, or the next of the four or eight of codebook entry i (weights/super_blocks.h; E2M1's values
// are doubled, so that they are integers). Seven signs have an eighth that makes the number of set ones even.
//
// Nibbles of a 32-block: byte j holds value j in its low half and value j + 16 in its high half.
// Every product and sum is one float operation, rounded: (d sc) is rounded before it multiplies c.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "base/number_formats.h"
#include "base/tensor_view.h"

namespace ibid {

inline constexpr size_t kMaxGroupsPerBlock = 16;
inline constexpr size_t kMaxValuesPerBlock = 256;

// Codes, scales and mins of a row such that, in float arithmetic,
// (base/number_formats.h has the group_size of each type)
//   value[i] = scales[i / group_size] * codes[i]                          without mins
//   value[i] = scales[i / group_size] * codes[i] + mins[i / group_size]   with mins
// is what ggml computes, bit for bit. Scales may be negative, subnormal, infinite or NaN: they are the
// file's. REQUIRES: dtype_is_quantized(dtype); codes.size() is a whole number of blocks, blocks holds exactly
// them;
//   scales (and mins, where the type has them; otherwise mins is empty) hold codes.size() / group_size.
void unpack_row(DType dtype, std::span<const std::byte> blocks, std::span<int8_t> codes,
                std::span<float> scales, std::span<float> mins);

// Q2_K to Q6_K, IQ1 to IQ3 and IQ4_XS keep a half per block of 256 and an integer per group: the scale of group g is
// float(d) * scales[g], by 1/8 where the layout says so, its min -(float(dmin) * mins[g]), all exact in float.
bool has_super_scales(DType dtype);

struct SuperScales {
  std::span<uint16_t> d, dmin;     // [blocks] bits of a half; dmin only of types with mins
  std::span<int8_t> scales, mins;  // [groups]
};

// The codes of unpack_row, with the factors of its scales and mins. REQUIRES: has_super_scales(dtype); sizes as
// for unpack_row.
void unpack_super_row(DType dtype, std::span<const std::byte> blocks, std::span<int8_t> codes,
                      const SuperScales& out);

// True for the types whose rows dequantize_row can decode: F32, F16, BF16, F64, floats of a byte with scales and the
// quantised ones.
inline bool can_dequantize(DType dtype) {
  return dtype_is_float(dtype) || dtype == DType::kF64 || dtype == DType::kF8E4M3Scaled ||
         dtype == DType::kF8E5M2Scaled || dtype_is_quantized(dtype);
}

// The values of floats of a byte (OCP 8-bit Floating Point Specification 1.0): E4M3 has NaN at 0x7f and 0xff and no
// infinities, E5M2 is the upper byte of a half.
inline float e4m3_to_float(uint8_t byte) {
  if ((byte & 0x7f) == 0x7f) return std::numeric_limits<float>::quiet_NaN();
  // A half with the same fields has a bias of 15 instead of 7.
  return fp16_to_float(static_cast<uint16_t>((byte & 0x80) << 8 | (byte & 0x7f) << 7)) * 256.0f;
}
inline float e5m2_to_float(uint8_t byte) { return fp16_to_float(static_cast<uint16_t>(byte << 8)); }

// The row as floats, equal bit for bit to ggml's dequantize_row_* (and to gguf-py's numpy); F64 is rounded to nearest.
// REQUIRES (and CHECKed): can_dequantize(dtype); out.size() is a whole number of blocks, blocks holds exactly them.
void dequantize_row(DType dtype, std::span<const std::byte> blocks, std::span<float> out);

// All values of a tensor, whether they lie in the file or its rows are made. REQUIRES: can_dequantize(tensor.dtype);
// out.size() == tensor.shape.elements().
void dequantize_tensor(const TensorView& tensor, std::span<float> out);

}  // namespace ibid
