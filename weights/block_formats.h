// The quantised blocks of GGUF tensors: their byte layout, and decoders of one row at a time.
//
// The readable, exact definition: integer codes plus float scales, with the roundings of ggml's dequantize_row_*
// (https://github.com/ggml-org/ggml, src/ggml-quants.c and src/ggml-common.h). Not optimised: at load the blocks are
// repacked to panels (model/weights/pack_blocks.h), from which kernels/ computes.
//
// Stateless, thread-safe. Bytes may be unaligned.
//
// A row is a sequence of blocks; a block holds one or more groups of 32 or 16 values that share a scale:
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
// F8_E4M3, F8_E5M2 with scales: 32 in 36 B   s f32 | c bytes[32]     s c; made from two tensors
//                         (weights/assembled_tensors.h)
//   MXFP4    32 in  17 B   e8m0 | c nibbles[16]                                      2^(e8m0 - 128) t
//   NVFP4    64 in  36 B   ue4m3[4] | c nibbles[32], 8 bytes for 16 values           ue4m3 / 2 t
// t is the table value of code c, or one of the four or eight values of codebook entry i (weights/super_blocks.h).
// Values of E2M1 are stored times 2, so that they are integers. Of eight signs seven are stored; the eighth makes the
// number of set bits even.
//
// Nibbles of a 32-block: byte j holds value j in its low half and value j + 16 in its high half. Every product and sum
// is one float operation, rounded: (d sc) is rounded before it multiplies c.
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

// Decodes a row into codes, scales and mins. With the group_size of base/number_formats.h, the float arithmetic
//   value[i] = scales[i / group_size] * codes[i]                          without mins
//   value[i] = scales[i / group_size] * codes[i] + mins[i / group_size]   with mins
// gives ggml's value bit for bit. Scales come from the file and may be negative, subnormal, infinite or NaN. REQUIRES:
// dtype_is_quantized(dtype); codes.size() is a whole number of blocks, and `blocks` has exactly the bytes of these
// blocks; scales, and mins if the type has them (else empty), have codes.size() / group_size elements.
void unpack_row(DType dtype, std::span<const std::byte> blocks, std::span<int8_t> codes, std::span<float> scales,
                std::span<float> mins);

// True for Q2_K to Q6_K, IQ1 to IQ3 and IQ4_XS, which have an FP16 scale per block of 256 and an integer per group. The
// scale of group g is float(d) * scales[g] (times 1/8 for kEighthByCode), its min -(float(dmin) * mins[g]); all are
// exact in float.
bool has_super_scales(DType dtype);

struct SuperScales {
  std::span<uint16_t> d, dmin;     // by block: bits of FP16 numbers; dmin only for types with mins
  std::span<int8_t> scales, mins;  // [groups]
};

// As unpack_row(), but returns each scale and min as its two factors (SuperScales). REQUIRES: has_super_scales(dtype);
// sizes as for unpack_row().
void unpack_super_row(DType dtype, std::span<const std::byte> blocks, std::span<int8_t> codes, const SuperScales& out);

// True for the types that dequantize_row() decodes: F32, F16, BF16, F64, one-byte floats with scales, quantised types.
inline bool can_dequantize(DType dtype) {
  return dtype_is_float(dtype) || dtype == DType::kF64 || dtype == DType::kF8E4M3Scaled ||
         dtype == DType::kF8E5M2Scaled || dtype_is_quantized(dtype);
}

// Values of one-byte floats (OCP 8-bit Floating Point Specification 1.0): E4M3 has NaN at 0x7f and 0xff and no
// infinities; E5M2 is the upper byte of an FP16 number.
inline float e4m3_to_float(uint8_t byte) {
  if ((byte & 0x7f) == 0x7f) return std::numeric_limits<float>::quiet_NaN();
  // In an FP16 number with the same fields the exponent's bias is 15 instead of 7, so multiply by 2^8.
  return fp16_to_float(static_cast<uint16_t>((byte & 0x80) << 8 | (byte & 0x7f) << 7)) * 256.0f;
}
inline float e5m2_to_float(uint8_t byte) { return fp16_to_float(static_cast<uint16_t>(byte << 8)); }

// Decodes a row to floats, equal bit for bit to ggml's dequantize_row_* (and gguf-py's numpy); F64 is rounded to
// nearest. REQUIRES (CHECKed): can_dequantize(dtype); out.size() is a whole number of blocks, `blocks` exactly their
// bytes.
void dequantize_row(DType dtype, std::span<const std::byte> blocks, std::span<float> out);

// Decodes all values of a tensor, stored or assembled by a RowSource. REQUIRES: can_dequantize(tensor.dtype);
// out.size() == tensor.shape.elements().
void dequantize_tensor(const TensorView& tensor, std::span<float> out);

}  // namespace ibid
