// DType: how the numbers of a tensor are stored in a file or in a row of the KV cache. Also converts the two 16-bit
// float formats that C++20 lacks. The properties of each type are in base/number_formats.h; weights/block_formats.h
// decodes quantised blocks.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ibid {

enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,  // plain floats
  kF64,
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kBool,  // plain numbers
  kF8E4M3,
  kF8E5M2,  // one-byte floats without a scale
  kF8E4M3Scaled,
  kF8E5M2Scaled,  // blocks of a float scale and 32 one-byte floats
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,  // blocks of 32 (ggml)
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,  // blocks of 256 (ggml)
  kTQ1_0,
  kTQ2_0,  // blocks of 256 values, each -1, 0 or 1
  kIQ1_S,
  kIQ1_M,
  kIQ2_XXS,
  kIQ2_XS,
  kIQ2_S,
  kIQ3_XXS,
  kIQ3_S,
  kIQ4_XS,  // blocks of 256; a code is an index into a codebook
  kIQ4_NL,  // blocks of 32; a code is an index into a table
  kMXFP4,
  kNVFP4,  // blocks of 32 (MXFP4) or 64 (NVFP4); a code is a 4-bit float
};
inline constexpr size_t kDTypeCount = static_cast<size_t>(DType::kNVFP4) + 1;

// "F32", "Q4_K": the name used in files and messages.
std::string_view dtype_name(DType dtype);

// Values per block and bytes per block: {1, 4} for F32, {32, 18} for Q4_0, {256, 144} for Q4_K.
struct BlockSize {
  size_t values;
  size_t bytes;
};
BlockSize dtype_block(DType dtype);

inline bool dtype_is_float(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}
// True for formats that store codes and scales; unpack_row() of weights/block_formats.h decodes them.
inline bool dtype_is_quantized(DType dtype) { return dtype >= DType::kQ4_0; }

// IEEE 754 binary16 to float, exact for every bit pattern (NaN payloads are kept).
float fp16_to_float(uint16_t bits);
// Rounds to nearest even; overflow becomes infinity, as in the instruction vcvtps2ph.
uint16_t float_to_fp16(float value);

inline float bf16_to_float(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

}  // namespace ibid
