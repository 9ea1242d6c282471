#include "base/number_formats.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "base/check.h"

namespace ibid {

namespace {

using enum ScaleKind;
using enum CodeTable;

// One row per DType: dtype, name, enum ggml_type of ggml.h, size of a block (ggml's on-disk structs; see
// weights/block_formats.h), and the layout: group, mins, smallest and largest code, scales, table.
constexpr NumberFormat kFormats[] = {
    {DType::kF32, "F32", 0, {1, 4}, {}},
    {DType::kF16, "F16", 1, {1, 2}, {}},
    {DType::kBF16, "BF16", 30, {1, 2}, {}},
    {DType::kF64, "F64", 28, {1, 8}, {}},
    {DType::kI8, "I8", 24, {1, 1}, {}},
    {DType::kI16, "I16", 25, {1, 2}, {}},
    {DType::kI32, "I32", 26, {1, 4}, {}},
    {DType::kI64, "I64", 27, {1, 8}, {}},
    {DType::kU8, "U8", -1, {1, 1}, {}},
    {DType::kBool, "BOOL", -1, {1, 1}, {}},
    {DType::kF8E4M3, "F8_E4M3", -1, {1, 1}, {}},
    {DType::kF8E5M2, "F8_E5M2", -1, {1, 1}, {}},
    {DType::kF8E4M3Scaled, "F8_E4M3 with scales", -1, {32, 36}, {}},
    {DType::kF8E5M2Scaled, "F8_E5M2 with scales", -1, {32, 36}, {}},
    {DType::kQ4_0, "Q4_0", 2, {32, 18}, {32, false, -8, 7, kHalf}},
    {DType::kQ4_1, "Q4_1", 3, {32, 20}, {32, true, 0, 15, kHalf}},
    {DType::kQ5_0, "Q5_0", 6, {32, 22}, {32, false, -16, 15, kHalf}},
    {DType::kQ5_1, "Q5_1", 7, {32, 24}, {32, true, 0, 31, kHalf}},
    {DType::kQ8_0, "Q8_0", 8, {32, 34}, {32, false, -128, 127, kHalf}},
    {DType::kQ2_K, "Q2_K", 10, {256, 84}, {16, true, 0, 3, kHalfByCode}},
    {DType::kQ3_K, "Q3_K", 11, {256, 110}, {16, false, -4, 3, kHalfByCode}},
    {DType::kQ4_K, "Q4_K", 12, {256, 144}, {32, true, 0, 15, kHalfByCode}},
    {DType::kQ5_K, "Q5_K", 13, {256, 176}, {32, true, 0, 31, kHalfByCode}},
    {DType::kQ6_K, "Q6_K", 14, {256, 210}, {16, false, -32, 31, kHalfByCode}},
    {DType::kTQ1_0, "TQ1_0", 34, {256, 54}, {32, false, -1, 1, kHalf}},
    {DType::kTQ2_0, "TQ2_0", 35, {256, 66}, {32, false, -1, 2, kHalf}},
    {DType::kIQ1_S, "IQ1_S", 19, {256, 50}, {32, false, -9, 9, kEighthByCode, kIq1}},
    {DType::kIQ1_M, "IQ1_M", 29, {256, 56}, {16, false, -9, 9, kEighthByCode, kIq1}},
    {DType::kIQ2_XXS, "IQ2_XXS", 16, {256, 66}, {32, false, -43, 43, kEighthByCode, kIq2}},
    {DType::kIQ2_XS, "IQ2_XS", 17, {256, 74}, {16, false, -43, 43, kEighthByCode, kIq2}},
    {DType::kIQ2_S, "IQ2_S", 22, {256, 82}, {16, false, -43, 43, kEighthByCode, kIq2}},
    {DType::kIQ3_XXS, "IQ3_XXS", 18, {256, 98}, {32, false, -62, 62, kEighthByCode, kIq3xxs}},
    {DType::kIQ3_S, "IQ3_S", 21, {256, 110}, {32, false, -30, 30, kEighthByCode, kIq3s}},
    {DType::kIQ4_XS, "IQ4_XS", 23, {256, 136}, {32, false, -127, 113, kHalfByCode, kIq4}},
    {DType::kIQ4_NL, "IQ4_NL", 20, {32, 18}, {32, false, -127, 113, kHalf, kIq4}},
    {DType::kMXFP4, "MXFP4", 39, {32, 17}, {32, false, -12, 12, kBfloat, kFp4}},
    {DType::kNVFP4, "NVFP4", 40, {64, 36}, {16, false, -12, 12, kHalf, kFp4}},
};
static_assert(std::size(kFormats) == kDTypeCount);

constexpr bool rows_are_in_order() {
  for (size_t i = 0; i < kDTypeCount; ++i) {
    if (kFormats[i].dtype != static_cast<DType>(i)) return false;
  }
  return true;
}
static_assert(rows_are_in_order());

using Values = std::array<int8_t, kCodeTableSize>;

// Indexed by CodeTable. The values of kFp4 and kIq4 are in the order of the codes in files.
constexpr Values kCodeValues[] = {
    {},
    {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12},
    {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113},
    {-30, -26, -22, -18, -14, -10, -6, -2, 2, 6, 10, 14, 18, 22, 26, 30},
    {-62, -52, -44, -36, -28, -20, -12, -4, 4, 12, 20, 28, 36, 44, 52, 62},
    {-43, -25, -8, 8, 25, 43, 43, 43, 43, 43, 43, 43, 43, 43, 43, 43},
    {-9, -7, -1, 1, 7, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9},
};

}  // namespace

std::span<const int8_t, kCodeTableSize> code_values(CodeTable table) {
  CHECK(table != CodeTable::kNoTable && static_cast<size_t>(table) < std::size(kCodeValues));
  return kCodeValues[static_cast<size_t>(table)];
}

const NumberFormat& number_format(DType dtype) {
  CHECK_LT(static_cast<size_t>(dtype), kDTypeCount);
  return kFormats[static_cast<size_t>(dtype)];
}

std::span<const NumberFormat> all_number_formats() { return kFormats; }

QuantLayout quant_layout(DType dtype) {
  CHECK(dtype_is_quantized(dtype)) << dtype_name(dtype);
  return number_format(dtype).layout;
}

}  // namespace ibid
