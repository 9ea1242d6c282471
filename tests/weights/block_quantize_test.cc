#include "weights/block_quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/support/paths.h"
#include "tests/support/temp_dir.h"
#include "weights/block_formats.h"

namespace ibid {
namespace {

std::string golden_text(std::string_view name) {
  return read_whole_file(golden_dir() + "/blocks/" + std::string(name));
}

std::vector<std::byte> encode(DType dtype, const std::vector<float>& values) {
  const BlockSize block = dtype_block(dtype);
  std::vector<std::byte> bytes(values.size() / block.values * block.bytes);
  quantize_row(dtype, values, bytes);
  return bytes;
}

std::vector<float> decode(DType dtype, const std::vector<std::byte>& bytes) {
  const BlockSize block = dtype_block(dtype);
  std::vector<float> values(bytes.size() / block.bytes * block.values);
  dequantize_row(dtype, bytes, values);
  return values;
}

class LikeGgufPy : public testing::TestWithParam<DType> {};

TEST_P(LikeGgufPy, EncoderWritesTheSameBytesAsGgufPy) {
  const std::string text = golden_text("values.floats");
  std::vector<float> values(text.size() / sizeof(float));
  std::memcpy(values.data(), text.data(), text.size());
  const std::vector<std::byte> got = encode(GetParam(), values);
  const std::string want = golden_text(std::string(dtype_name(GetParam())) + ".encoded");
  ASSERT_EQ(got.size(), want.size());
  EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size()), 0);
}

std::string name_of_type(const testing::TestParamInfo<DType>& info) { return std::string(dtype_name(info.param)); }

INSTANTIATE_TEST_SUITE_P(Types, LikeGgufPy,
                         testing::Values(DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0,
                                         DType::kBF16),
                         name_of_type);

class RoundTrip : public testing::TestWithParam<DType> {};

// The bound is half a step of the group's scale, plus its rounding to FP16 and, for K types, to 6 or 8 bits.
TEST_P(RoundTrip, RoundTripErrorStaysWithinAStepOfTheScale) {
  const QuantLayout layout = quant_layout(GetParam());
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> values(1024);
  for (float& value : values) value = normal(random);
  const std::vector<std::byte> blocks = encode(GetParam(), values);
  const std::vector<float> got = decode(GetParam(), blocks);

  const float range = 2 * std::fabs(*std::max_element(values.begin(), values.end(),
                                                      [](float a, float b) { return std::fabs(a) < std::fabs(b); }));
  const float step = range / static_cast<float>(layout.max_code - layout.min_code);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(got[i], values[i], 1.05f * step) << i;
}

TEST_P(RoundTrip, RoundTripKeepsZeros) {
  const std::vector<float> zeros(256, 0.0f);
  for (const float value : decode(GetParam(), encode(GetParam(), zeros))) EXPECT_EQ(value, 0.0f);
}

INSTANTIATE_TEST_SUITE_P(Types, RoundTrip,
                         testing::Values(DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0,
                                         DType::kQ4_K, DType::kQ5_K, DType::kQ6_K),
                         name_of_type);

}  // namespace
}  // namespace ibid
