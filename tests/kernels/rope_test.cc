#include "kernels/ops/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/kernels/float_bits.h"

namespace ibid {
namespace {

RopeRule plain(double theta, size_t rotary_dim) {
  RopeRule rule;
  rule.theta = theta;
  rule.rotary_dim = rotary_dim;
  return rule;
}

TEST(Rope, PlainFrequenciesAreThetaToTheMinusTwoIOverDim) {
  for (double theta : {10000.0, 100000.0, 500000.0, 1e6}) {
    const RopeTable table = make_rope_table(plain(theta, 64), 4096);
    ASSERT_EQ(table.inv_freq.size(), 32u);
    for (size_t i = 0; i < 32; ++i) {
      const double exact = std::pow(theta, -2.0 * static_cast<double>(i) / 64.0);
      EXPECT_NEAR(table.inv_freq[i] / exact, 1.0, 1e-14);
    }
  }
}

TEST(Rope, AnglesMatchDoubleToTheLastFloatBitUpToAMillion) {
  const RopeTable table = make_rope_table(plain(10000.0, 128), 4096);
  std::vector<float> cos_sin(128);
  for (size_t position : {0u, 1u, 63u, 511u, 8191u, 131071u, 1048575u}) {
    rope_angles(table, position, cos_sin.data());
    for (size_t i = 0; i < 64; ++i) {
      const double angle = static_cast<double>(position) * table.inv_freq[i];
      ASSERT_NEAR(cos_sin[i], std::cos(angle), 6e-8) << position << ' ' << i;
      ASSERT_NEAR(cos_sin[64 + i], std::sin(angle), 6e-8) << position << ' ' << i;
    }
  }
}

TEST(Rope, MagnitudeScalesCosAndSin) {
  RopeTable table = make_rope_table(plain(10000.0, 8), 4096);
  table.magnitude = 1.5f;
  std::vector<float> cos_sin(8);
  rope_angles(table, 7, cos_sin.data());
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(std::hypot(cos_sin[i], cos_sin[4 + i]), 1.5, 1e-6);
}

TEST(Rope, LinearScalingDividesEveryFrequency) {
  RopeRule rule = plain(10000.0, 32);
  rule.kind = RopeRule::Kind::kLinear;
  rule.factor = 4.0;
  const RopeTable stretched = make_rope_table(rule, 4096);
  const RopeTable base = make_rope_table(plain(10000.0, 32), 4096);
  for (size_t i = 0; i < 16; ++i) EXPECT_DOUBLE_EQ(stretched.inv_freq[i], base.inv_freq[i] / 4.0);
}

TEST(Rope, EachFrequencyFactorDividesItsFrequency) {
  RopeRule rule = plain(500000.0, 8);
  rule.frequency_factors = {1.0f, 1.0f, 2.0f, 8.0f};
  const RopeTable table = make_rope_table(rule, 4096);
  const RopeTable base = make_rope_table(plain(500000.0, 8), 4096);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_DOUBLE_EQ(table.inv_freq[i], base.inv_freq[i] / double{rule.frequency_factors[i]});
  }
}

// The rule by wavelengths, as in transformers.
double llama3_by_wavelength(const Llama3Rule& rule, double inv_freq) {
  const double wavelength = 2 * std::acos(-1.0) / inv_freq;
  const double low = rule.original_max_positions / rule.low_freq_factor;
  const double high = rule.original_max_positions / rule.high_freq_factor;
  if (wavelength > low) return inv_freq / rule.factor;
  if (wavelength < high) return inv_freq;
  const double smooth = (rule.original_max_positions / wavelength - rule.low_freq_factor) /
                        (rule.high_freq_factor - rule.low_freq_factor);
  return (1 - smooth) * inv_freq / rule.factor + smooth * inv_freq;
}

TEST(Rope, Llama3FactorsMatchTheRuleByWavelength) {
  RopeRule rule = plain(500000.0, 128);
  const Llama3Rule llama3{8.0, 1.0, 4.0, 8192};
  rule.frequency_factors = llama3_frequency_factors(llama3, 500000.0, 128);
  const RopeTable table = make_rope_table(rule, 4096);
  const RopeTable base = make_rope_table(plain(500000.0, 128), 4096);
  size_t kept = 0, divided = 0, mixed = 0;
  for (size_t i = 0; i < 64; ++i) {
    EXPECT_NEAR(table.inv_freq[i] / llama3_by_wavelength(llama3, base.inv_freq[i]), 1.0, 1e-7)
        << i;  // factors are rounded to 32 bits
    const double ratio = base.inv_freq[i] / table.inv_freq[i];
    if (ratio == 1.0) {
      ++kept;
    } else if (std::fabs(ratio - 8.0) < 1e-9) {
      ++divided;
    } else {
      ++mixed;
    }
  }
  // In Llama 3.1 8B, wavelengths up to 2048 positions (i <= 28) are kept, and those over 8192 (i >= 35) are divided.
  EXPECT_EQ(kept, 29u);
  EXPECT_EQ(mixed, 6u);
  EXPECT_EQ(divided, 29u);
}

// The rule by turns within the original context, as in its paper (Peng et al. 2023, section 3.2).
TEST(Rope, YarnMatchesItsPaper) {
  RopeRule rule = plain(1000000.0, 128);
  rule.kind = RopeRule::Kind::kYarn;
  rule.factor = 4.0;
  rule.original_max_positions = 32768;
  rule.truncate = false;
  rule.magnitude = 1.25;
  const RopeTable table = make_rope_table(rule, 131072);
  const RopeTable base = make_rope_table(plain(1000000.0, 128), 131072);
  EXPECT_EQ(table.magnitude, 1.25);
  const auto pair_of = [&](double turns) {
    return 128 * std::log(32768 / (turns * 2 * std::acos(-1.0))) / (2 * std::log(1000000.0));
  };
  for (size_t i = 0; i < 64; ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - pair_of(32)) / (pair_of(1) - pair_of(32)), 0.0, 1.0);
    EXPECT_NEAR(table.inv_freq[i] / (base.inv_freq[i] * (ramp / 4 + 1 - ramp)), 1.0, 1e-13) << i;
  }
  rule.truncate = true;
  const RopeTable rounded = make_rope_table(rule, 131072);
  for (size_t i = 0; i < 64; ++i) {
    const double low = std::floor(pair_of(32)), high = std::ceil(pair_of(1));
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    EXPECT_NEAR(rounded.inv_freq[i] / (base.inv_freq[i] * (ramp / 4 + 1 - ramp)), 1.0, 1e-13) << i;
  }
}

TEST(Rope, LongropeSelectsFactorsByContext) {
  RopeRule rule = plain(10000.0, 8);
  rule.kind = RopeRule::Kind::kLongrope;
  rule.original_max_positions = 4096;
  rule.short_factors = {1.0f, 1.5f, 2.0f, 2.5f};
  rule.frequency_factors = {2.0f, 4.0f, 8.0f, 16.0f};
  const RopeTable base = make_rope_table(plain(10000.0, 8), 4096);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(make_rope_table(rule, 4096).inv_freq[i], base.inv_freq[i] / double{rule.short_factors[i]});
    EXPECT_EQ(make_rope_table(rule, 4097).inv_freq[i], base.inv_freq[i] / double{rule.frequency_factors[i]});
  }
}

TEST(Rope, PairsAfterTheRotatedPairsHaveFrequencyZero) {
  RopeRule rule = plain(10000.0, 8);
  rule.n_rotated_pairs = 2;
  const RopeTable table = make_rope_table(rule, 4096);
  EXPECT_EQ(table.inv_freq[1], make_rope_table(plain(10000.0, 8), 4096).inv_freq[1]);
  EXPECT_EQ(table.inv_freq[2], 0.0);
  std::vector<float> cos_sin(8);
  rope_angles(table, 1000, cos_sin.data());
  EXPECT_EQ(cos_sin[2], 1.0f);
  EXPECT_EQ(cos_sin[4 + 2], 0.0f);
}

TEST(Rope, AnglesAreBitIdenticalOnEveryMachine) {
  // These outputs are fixed: changing a single bit would invalidate every stored key.
  const RopeTable table = make_rope_table(plain(10000.0, 64), 4096);
  std::vector<float> cos_sin(64);
  rope_angles(table, 1000, cos_sin.data());
  uint32_t hash = 2166136261u;
  for (float value : cos_sin) hash = (hash ^ std::bit_cast<uint32_t>(value)) * 16777619u;
  EXPECT_EQ(hash, 4042827226u);
}

}  // namespace
}  // namespace ibid
