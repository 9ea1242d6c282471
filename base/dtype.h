// DType: how the numbers of a tensor are stored on disk or in a cache row. Here are also the two 16-bit float
// formats that C++20 lacks, and the registry of number formats: one row for each DType, from which names, sizes,
// GGUF's numbers, decoding and the choice of a panel (kernels/layout/panel.h) follow. A new type is a row of the
// registry, a decoder (weights/block_formats.h) and, where no panel holds its codes and scales as they are, a panel.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace ibid {

enum class DType : uint8_t {
  kF32, kF16, kBF16,                                   // plain floats
  kF64, kI8, kI16, kI32, kI64, kU8, kBool,             // plain numbers
  kF8E4M3, kF8E5M2,                                    // floats of a byte, without a scale
  kF8E4M3Scaled, kF8E5M2Scaled,                        // 32 of them behind a float that multiplies them
  kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0,                   // blocks of 32 (ggml)
  kQ2_K, kQ3_K, kQ4_K, kQ5_K, kQ6_K,                   // blocks of 256 (ggml)
  kTQ1_0, kTQ2_0,                                      // blocks of 256, codes -1, 0, 1
  kIQ1_S, kIQ1_M, kIQ2_XXS, kIQ2_XS, kIQ2_S, kIQ3_XXS, kIQ3_S, kIQ4_XS,  // blocks of 256, codes by codebook
  kIQ4_NL,                                             // blocks of 32, codes by table
  kMXFP4, kNVFP4,                                      // blocks of 32 and 64, codes are floats of four bits
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
// Integer codes and scales: what unpack_row of weights/block_formats.h reads.
inline bool dtype_is_quantized(DType dtype) { return dtype >= DType::kQ4_0; }

// IEEE 754 binary16, exact; every bit pattern has a value (NaN payloads are kept).
float fp16_to_float(uint16_t bits);
// Round to nearest even; overflow becomes infinity, as vcvtps2ph does.
uint16_t float_to_fp16(float value);

inline float bf16_to_float(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// --- The registry.

// What stands for the scale of a group.
enum class ScaleKind : uint8_t {
  kNone,          // no codes: a float or a plain number
  kHalf,          // exactly a half
  kBfloat,        // exactly a bfloat: a power of two
  kHalfByCode,    // a half of the block by an int8 of the group, exact in float
  kEighthByCode,  // the same by 1/8
};

// What the codes of four bits stand for, where they are not themselves consecutive integers. The values are integers:
// what a file's format has as halves or eighths is in the scale.
enum class CodeTable : uint8_t {
  kNumbers,  // none: codes are the numbers themselves
  kFp4,      // E2M1, doubled: 0 1 2 3 4 6 8 12 and their negatives
  kIq4,      // IQ4_NL's uneven steps
  kIq3s,     // the odd numbers to 15, doubled
  kIq3xxs,   // 4 12 20 28 36 44 52 62 and their negatives
  kIq2,      // 8 25 43 and their negatives
  kIq1,      // 1 7 9 and their negatives
};
inline constexpr size_t kCodeTableSize = 16;

// By stored code; unused codes repeat the last value. REQUIRES: not kNumbers.
std::span<const int8_t, kCodeTableSize> code_values(CodeTable table);

// How the codes of a quantised type are grouped along a row. Codes are given without their offset where the type is
// symmetric (Q4_0: -8..7), as stored where it has mins (Q4_1: 0..15), and by value where there is a table.
struct QuantLayout {
  size_t group_size = 0;
  bool has_mins = false;
  int min_code = 0, max_code = 0;
  ScaleKind scales = ScaleKind::kNone;
  CodeTable table = CodeTable::kNumbers;
};

struct NumberFormat {
  DType dtype;
  std::string_view name;
  int gguf_number;     // enum ggml_type; -1: GGUF has no such tensors
  BlockSize block;
  QuantLayout layout;  // quantised types
};

const NumberFormat& number_format(DType dtype);
std::span<const NumberFormat> all_number_formats();

// REQUIRES: dtype_is_quantized(dtype).
QuantLayout quant_layout(DType dtype);

}  // namespace ibid
