#include "weights/block_formats.h"
#include "tests/support/paths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace ibid {
namespace {

// Returns the bytes of tests/golden/blocks/NAME, which make_block_goldens.py wrote.
std::vector<std::byte> golden(const std::string& name) {
  std::ifstream in(golden_dir() + "/blocks/" + name, std::ios::binary);
  EXPECT_TRUE(in) << name;
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

std::vector<float> golden_floats(DType dtype) {
  const std::vector<std::byte> bytes = golden(std::string(dtype_name(dtype)) + ".floats");
  std::vector<float> floats(bytes.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.data(), bytes.size());
  return floats;
}

std::vector<std::byte> golden_blocks(DType dtype) { return golden(std::string(dtype_name(dtype)) + ".blocks"); }

void expect_same_bits(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want[i]))
        << "value " << i << ": " << got[i] << " vs " << want[i];
  }
}

const DType kQuantTypes[] = {DType::kQ4_0,   DType::kQ4_1,  DType::kQ5_0,    DType::kQ5_1,  DType::kQ8_0,
                             DType::kQ2_K,   DType::kQ3_K,  DType::kQ4_K,    DType::kQ5_K,  DType::kQ6_K,
                             DType::kTQ1_0,  DType::kTQ2_0, DType::kIQ1_S,   DType::kIQ1_M, DType::kIQ2_XXS,
                             DType::kIQ2_XS, DType::kIQ2_S, DType::kIQ3_XXS, DType::kIQ3_S, DType::kIQ4_XS,
                             DType::kIQ4_NL, DType::kMXFP4, DType::kNVFP4};

class Decodable : public testing::TestWithParam<DType> {};
class Quantised : public testing::TestWithParam<DType> {};

std::string type_name(const testing::TestParamInfo<DType>& info) { return std::string(dtype_name(info.param)); }

TEST_P(Decodable, DequantizedValuesEqualThoseOfGgufPy) {
  const std::vector<float> want = golden_floats(GetParam());
  const std::vector<std::byte> blocks = golden_blocks(GetParam());
  ASSERT_GT(want.size(), 0u);
  std::vector<float> got(want.size());
  dequantize_row(GetParam(), blocks, got);
  expect_same_bits(got, want);
}

TEST_P(Decodable, ReadsUnalignedBytes) {
  const std::vector<float> want = golden_floats(GetParam());
  std::vector<std::byte> shifted = golden_blocks(GetParam());
  shifted.insert(shifted.begin(), std::byte{0xAB});
  std::vector<float> got(want.size());
  dequantize_row(GetParam(), std::span(shifted).subspan(1), got);
  expect_same_bits(got, want);
}

TEST_P(Quantised, CodesAndScalesReproduceEveryValue) {
  const DType dtype = GetParam();
  const std::vector<float> want = golden_floats(dtype);
  const QuantLayout layout = quant_layout(dtype);
  std::vector<int8_t> codes(want.size());
  std::vector<float> scales(want.size() / layout.group_size), mins(layout.has_mins ? scales.size() : 0);
  unpack_row(dtype, golden_blocks(dtype), codes, scales, mins);

  std::vector<float> rebuilt(want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    const size_t group = i / layout.group_size;
    rebuilt[i] = scales[group] * static_cast<float>(codes[i]);
    if (layout.has_mins) rebuilt[i] += mins[group];
  }
  expect_same_bits(rebuilt, want);
}

TEST_P(Quantised, CodesFillTheirDocumentedRange) {
  const QuantLayout layout = quant_layout(GetParam());
  const size_t n = golden_floats(GetParam()).size();
  std::vector<int8_t> codes(n);
  std::vector<float> scales(n / layout.group_size), mins(layout.has_mins ? scales.size() : 0);
  unpack_row(GetParam(), golden_blocks(GetParam()), codes, scales, mins);
  const auto [low, high] = std::minmax_element(codes.begin(), codes.end());
  // The codes in the golden files are random, so with at most 64 codes both ends of the range occur.
  if (GetParam() != DType::kQ8_0) {
    EXPECT_EQ(*low, layout.min_code);
    EXPECT_EQ(*high, layout.max_code);
  }
  EXPECT_GE(*low, layout.min_code);
  EXPECT_LE(*high, layout.max_code);
}

TEST_P(Quantised, ScalesMatchTheScaleKindOfTheType) {
  const QuantLayout layout = quant_layout(GetParam());
  const size_t n = golden_floats(GetParam()).size();
  std::vector<int8_t> codes(n);
  std::vector<float> scales(n / layout.group_size), mins(layout.has_mins ? scales.size() : 0);
  unpack_row(GetParam(), golden_blocks(GetParam()), codes, scales, mins);
  scales.insert(scales.end(), mins.begin(), mins.end());
  bool all_half = true, all_bfloat = true;
  for (const float scale : scales) {
    const auto bits = std::bit_cast<uint32_t>(scale);
    all_half &= std::bit_cast<uint32_t>(fp16_to_float(float_to_fp16(scale))) == bits;
    all_bfloat &= bf16_to_float(static_cast<uint16_t>(bits >> 16)) == scale;
  }
  EXPECT_EQ(all_half, layout.scales == ScaleKind::kHalf);
  EXPECT_EQ(all_bfloat, layout.scales == ScaleKind::kBfloat || GetParam() == DType::kNVFP4);
}

TEST_P(Quantised, SuperBlockScalesReproduceTheScales) {
  const DType dtype = GetParam();
  const ScaleKind kind = quant_layout(dtype).scales;
  EXPECT_EQ(has_super_scales(dtype), kind == ScaleKind::kHalfByCode || kind == ScaleKind::kEighthByCode);
  if (!has_super_scales(dtype)) return;
  const QuantLayout layout = quant_layout(dtype);
  const size_t n = golden_floats(dtype).size(), groups = n / layout.group_size, n_blocks = n / 256;
  std::vector<int8_t> codes(n), super_codes(n);
  std::vector<float> scales(groups), mins(layout.has_mins ? groups : 0);
  unpack_row(dtype, golden_blocks(dtype), codes, scales, mins);
  std::vector<uint16_t> d(n_blocks), dmin(layout.has_mins ? n_blocks : 0);
  std::vector<int8_t> scale_codes(groups), min_codes(mins.size());
  unpack_super_row(dtype, golden_blocks(dtype), super_codes, {d, dmin, scale_codes, min_codes});
  EXPECT_EQ(super_codes, codes);
  std::vector<float> got_scales, got_mins;
  for (size_t g = 0; g < groups; ++g) {
    const size_t block = g * layout.group_size / 256;
    const float factor = layout.scales == ScaleKind::kEighthByCode ? 0.125f : 1.0f;
    got_scales.push_back(fp16_to_float(d[block]) * static_cast<float>(scale_codes[g]) * factor);
    if (layout.has_mins) got_mins.push_back(-(fp16_to_float(dmin[block]) * static_cast<float>(min_codes[g])));
  }
  expect_same_bits(got_scales, scales);
  expect_same_bits(got_mins, mins);
}

INSTANTIATE_TEST_SUITE_P(Types, Quantised, testing::ValuesIn(kQuantTypes), type_name);
INSTANTIATE_TEST_SUITE_P(Types, Decodable, testing::ValuesIn(kQuantTypes), type_name);
INSTANTIATE_TEST_SUITE_P(Floats, Decodable, testing::Values(DType::kF16, DType::kBF16), type_name);

TEST(BlockFormats, F32IsCopiedBitForBit) {
  const std::vector<float> want = {0.0f, -0.0f, 1.5f, -INFINITY, 0x1p-149f};
  std::vector<std::byte> bytes(want.size() * sizeof(float));
  std::memcpy(bytes.data(), want.data(), bytes.size());
  std::vector<float> got(want.size());
  dequantize_row(DType::kF32, bytes, got);
  expect_same_bits(got, want);
}

TEST(BlockFormats, InfiniteScalesGiveInfiniteValues) {
  // The decoder must not change a hostile scale, so that the loader's check for finite values sees it.
  std::vector<std::byte> block(dtype_block(DType::kQ8_0).bytes, std::byte{1});
  block[0] = std::byte{0x00};
  block[1] = std::byte{0x7C};
  std::vector<float> got(32);
  dequantize_row(DType::kQ8_0, block, got);
  for (const float value : got) EXPECT_TRUE(std::isinf(value));
}

TEST(BlockFormats, Mxfp4ScaleOf255IsNaN) {
  std::vector<std::byte> block(17, std::byte{0x21});
  block[0] = std::byte{255};
  std::vector<float> got(32);
  dequantize_row(DType::kMXFP4, block, got);
  for (const float value : got) EXPECT_TRUE(std::isnan(value));
}

TEST(BlockFormats, F64IsRoundedToNearest) {
  const std::vector<double> values = {1.0 + 0x1p-24, -0x1.000001000001p0, 0x1p-150, 0x1p200};
  std::vector<std::byte> bytes(values.size() * sizeof(double));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  std::vector<float> got(values.size());
  dequantize_row(DType::kF64, bytes, got);
  expect_same_bits(got, {1.0f, -0x1.000002p0f, 0.0f, INFINITY});
}

TEST(BlockFormats, EmptyRowsAreAccepted) {
  dequantize_row(DType::kQ4_K, {}, {});
  dequantize_row(DType::kF32, {}, {});
}

TEST(BlockFormatsDeathTest, WrongOutputSizeFailsACheck) {
  for (const DType dtype :
       {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kF8E4M3Scaled, DType::kQ8_0, DType::kQ4_K}) {
    SCOPED_TRACE(dtype_name(dtype));
    const BlockSize size = dtype_block(dtype);
    const std::vector<std::byte> blocks(2 * size.bytes);
    std::vector<float> got(2 * size.values);
    dequantize_row(dtype, blocks, got);
    EXPECT_DEATH(dequantize_row(dtype, blocks, std::span(got).first(size.values)), "CHECK");
    EXPECT_DEATH(dequantize_row(dtype, std::span(blocks).first(size.bytes), got), "CHECK");
  }
  const std::vector<std::byte> blocks(2 * dtype_block(DType::kQ4_K).bytes);
  std::vector<int8_t> codes(2 * kMaxValuesPerBlock), scales(16), mins(16);
  std::vector<uint16_t> d(2), dmin(2);
  unpack_super_row(DType::kQ4_K, blocks, codes, {d, dmin, scales, mins});
  EXPECT_DEATH(unpack_super_row(DType::kQ4_K, blocks, codes, {std::span(d).first(1), dmin, scales, mins}), "CHECK");
  EXPECT_DEATH(unpack_super_row(DType::kQ4_K, blocks, codes, {d, {}, scales, mins}), "CHECK");
  EXPECT_DEATH(unpack_super_row(DType::kQ4_K, blocks, codes, {d, dmin, std::span(scales).first(8), mins}), "CHECK");
  EXPECT_DEATH(unpack_super_row(DType::kQ4_K, blocks, codes, {d, dmin, scales, {}}), "CHECK");
}

TEST(BlockFormats, OnlyWeightTypesAreDecodable) {
  EXPECT_TRUE(can_dequantize(DType::kF32));
  EXPECT_TRUE(can_dequantize(DType::kQ6_K));
  EXPECT_TRUE(can_dequantize(DType::kF64));
  for (DType dtype : {DType::kI8, DType::kI32, DType::kBool, DType::kF8E4M3}) EXPECT_FALSE(can_dequantize(dtype));
}

}  // namespace
}  // namespace ibid
