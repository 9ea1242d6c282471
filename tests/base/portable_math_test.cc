#include "base/portable_math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "tests/kernels/float_bits.h"

namespace ibid {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(PortableMath, ExpIsWithinOneUlp) {
  double worst = 0;
  // Every 997th float of both signs within the limits.
  for (uint32_t bits = 0; bits < 0x43000000u; bits += 997) {
    for (const float x : {std::bit_cast<float>(bits), -std::bit_cast<float>(bits)}) {
      if (x < kExpLowest || x > kExpHighest) continue;
      const double exact = std::exp(double{x});
      worst = std::max(worst, std::fabs(double{portable_exp(x)} / exact - 1));
    }
  }
  EXPECT_LT(worst, 1.2e-7);
}

TEST(PortableMath, ExpIsCappedBeyondItsLimits) {
  EXPECT_EQ(portable_exp(0.0f), 1.0f);
  EXPECT_EQ(portable_exp(-0.0f), 1.0f);
  EXPECT_EQ(portable_exp(-kInfinity), 0.0f);
  EXPECT_EQ(portable_exp(-87.4f), 0.0f);
  EXPECT_GE(portable_exp(kExpLowest), std::numeric_limits<float>::min());  // never subnormal
  EXPECT_EQ(portable_exp(kInfinity), portable_exp(88.0f));
  EXPECT_EQ(portable_exp(1e30f), portable_exp(88.0f));
  EXPECT_TRUE(std::isfinite(portable_exp(88.0f)));
  EXPECT_TRUE(std::isnan(portable_exp(std::numeric_limits<float>::quiet_NaN())));
}

TEST(PortableMath, TanhIsOddAndWithinThreeUlp) {
  double worst = 0;
  for (uint32_t bits = 0x30000000u; bits < 0x42000000u; bits += 997) {
    const float x = std::bit_cast<float>(bits);
    worst = std::max(worst, std::fabs(double{portable_tanh(x)} / std::tanh(double{x}) - 1));
    ASSERT_EQ(portable_tanh(-x), -portable_tanh(x)) << x;
  }
  EXPECT_LT(worst, 3.6e-7);
  EXPECT_EQ(portable_tanh(100.0f), 1.0f);
  EXPECT_EQ(portable_tanh(0.0f), 0.0f);
}

TEST(PortableMath, ErfIsOddAndMatchesLibm) {
  double worst = 0;
  for (float x = 0.0f; x < 6.0f; x += 1.7e-5f) {
    worst = std::max(worst, std::fabs(double{portable_erf(x)} - std::erf(double{x})));
    ASSERT_EQ(portable_erf(-x), -portable_erf(x)) << x;
  }
  EXPECT_LT(worst, 1e-7);
  EXPECT_EQ(portable_erf(100.0f), 1.0f);
  EXPECT_EQ(portable_erf(0.0f), 0.0f);
}

TEST(PortableMath, SinCosMatchesLibm) {
  FloatSequence sequence(1);
  double worst = 0;
  for (int i = 0; i < 200000; ++i) {
    const double x = std::ldexp(double{sequence.next()}, i % 21);  // up to 2^20
    const SinCos got = portable_sin_cos(x);
    worst = std::max({worst, std::fabs(got.sin - std::sin(x)), std::fabs(got.cos - std::cos(x))});
  }
  EXPECT_LT(worst, 4e-16);
}

TEST(PortableMath, SinCosMatchesLibmNearMultiplesOfAQuarterTurn) {
  for (int k = 1; k < 600000; k += 977) {
    const double x = k * 1.5707963267948966;
    const SinCos got = portable_sin_cos(x);
    ASSERT_NEAR(got.sin, std::sin(x), 4e-16) << k;
    ASSERT_NEAR(got.cos, std::cos(x), 4e-16) << k;
  }
}

TEST(PortableMath, DoubleLogExpAndPowMatchLibm) {
  FloatSequence sequence(2);
  for (int i = 0; i < 20000; ++i) {
    const double x = std::ldexp(1.0 + double{sequence.next(0, 1)}, i % 1000 - 500);
    ASSERT_NEAR(portable_log(x), std::log(x), 1e-15 * std::max(1.0, std::fabs(std::log(x)))) << x;
    const double y = double{sequence.next()} * 700;
    ASSERT_NEAR(portable_exp(y) / std::exp(y), 1.0, 1e-15) << y;
    const double exponent = double{sequence.next()};
    ASSERT_NEAR(portable_pow(1e6, exponent) / std::pow(1e6, exponent), 1.0, 1e-14) << exponent;
  }
  EXPECT_EQ(portable_log(1.0), 0.0);
  EXPECT_EQ(portable_pow(10000.0, 0.0), 1.0);
}

}  // namespace
}  // namespace ibid
