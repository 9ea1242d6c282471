#include "base/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace ibid {
namespace {

// Returns the value of an FP16 number, by IEEE 754's definition, in double.
double half_value(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 31) return mantissa != 0 ? std::nan("") : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(Fp16, AllBitPatternsConvertAndRoundTrip) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const float value = fp16_to_float(bits);
    const double expected = half_value(bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << i;
      ASSERT_EQ(std::bit_cast<uint32_t>(value) >> 13 & 1023u, i & 1023u);  // the payload
      ASSERT_EQ(float_to_fp16(value), i | 0x200u);                         // a quiet NaN
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), expected) << i;
    ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0) << i;
    ASSERT_EQ(float_to_fp16(value), bits);
  }
}

TEST(Fp16, RoundsToNearestAndTiesToEven) {
  for (uint16_t bits = 0; bits < 0x7BFF; ++bits) {
    const float low = fp16_to_float(bits);
    const float high = fp16_to_float(static_cast<uint16_t>(bits + 1));
    const float middle = (low + high) / 2;  // exact, because floats have 13 more bits
    const auto even = static_cast<uint16_t>(bits + (bits & 1));
    ASSERT_EQ(float_to_fp16(middle), even) << bits;
    ASSERT_EQ(float_to_fp16(std::nextafter(middle, 0.0f)), bits);
    ASSERT_EQ(float_to_fp16(std::nextafter(middle, HUGE_VALF)), bits + 1);
    ASSERT_EQ(float_to_fp16(-middle), even | 0x8000);
  }
}

TEST(Fp16, TooLargeFloatsBecomeInfinity) {
  EXPECT_EQ(float_to_fp16(65504.0f), 0x7BFF);
  EXPECT_EQ(float_to_fp16(std::nextafter(65520.0f, 0.0f)), 0x7BFF);
  EXPECT_EQ(float_to_fp16(65520.0f), 0x7C00);
  EXPECT_EQ(float_to_fp16(-1e30f), 0xFC00);
  EXPECT_EQ(float_to_fp16(HUGE_VALF), 0x7C00);
  EXPECT_EQ(float_to_fp16(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(float_to_fp16(-0.0f), 0x8000);
}

TEST(Bf16, Bf16IsTheUpperHalfOfAFloat) {
  EXPECT_EQ(bf16_to_float(0x3F80), 1.0f);
  EXPECT_EQ(bf16_to_float(0xC040), -3.0f);
  EXPECT_TRUE(std::isinf(bf16_to_float(0x7F80)));
}

TEST(DTypeTable, TableRowsAgreeWithTheEnum) {
  for (size_t i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_FALSE(dtype_name(dtype).empty());
    const bool scaled = dtype == DType::kF8E4M3Scaled || dtype == DType::kF8E5M2Scaled;
    EXPECT_EQ(dtype_is_quantized(dtype) || scaled, dtype_block(dtype).values > 1) << dtype_name(dtype);
    EXPECT_FALSE(dtype_is_quantized(dtype) && dtype_is_float(dtype));
  }
  EXPECT_EQ(dtype_name(DType::kQ6_K), "Q6_K");
  EXPECT_EQ(dtype_block(DType::kQ6_K).bytes, 210u);
  EXPECT_EQ(dtype_name(DType::kQ4_0), "Q4_0");
  EXPECT_EQ(dtype_block(DType::kQ4_0).bytes, 18u);
}

}  // namespace
}  // namespace ibid
