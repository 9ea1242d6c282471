#include "base/checked.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace ibid {
namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

TEST(Checked, AddAndMultiplyDetectOverflow) {
  EXPECT_EQ(checked_add<uint64_t>(kMax - 1, 1), kMax);
  EXPECT_EQ(checked_add<uint64_t>(kMax, 1), std::nullopt);
  EXPECT_EQ(checked_mul<uint64_t>(uint64_t{1} << 32, (uint64_t{1} << 32) - 1), kMax - (uint64_t{1} << 32) + 1);
  EXPECT_EQ(checked_mul<uint64_t>(uint64_t{1} << 32, uint64_t{1} << 32), std::nullopt);
  EXPECT_EQ(checked_mul<uint64_t>(0, kMax), 0u);
}

// The compiler promotes operands narrower than int, but the functions must report overflow of the narrow type.
TEST(Checked, NarrowTypesOverflowAtTheirOwnLimits) {
  for (uint32_t a = 0; a < 256; ++a) {
    for (uint32_t b = 0; b < 256; ++b) {
      const auto x = static_cast<uint8_t>(a);
      const auto y = static_cast<uint8_t>(b);
      EXPECT_EQ(checked_add(x, y).has_value(), a + b < 256);
      EXPECT_EQ(checked_mul(x, y).has_value(), a * b < 256);
    }
  }
}

TEST(Checked, CastReturnsNulloptIfTheValueDoesNotFit) {
  EXPECT_EQ((checked_cast<int32_t>(uint64_t{2147483647})), 2147483647);
  EXPECT_EQ((checked_cast<int32_t>(uint64_t{2147483648})), std::nullopt);
  EXPECT_EQ((checked_cast<uint32_t>(int64_t{-1})), std::nullopt);
  EXPECT_EQ((checked_cast<int64_t>(kMax)), std::nullopt);
  EXPECT_EQ((checked_cast<uint64_t>(int8_t{-1})), std::nullopt);
  EXPECT_EQ((checked_cast<int8_t>(-128)), -128);
}

TEST(Checked, AlignRoundsUpAndDetectsOverflow) {
  EXPECT_EQ(checked_align<uint64_t>(0, 32), 0u);
  EXPECT_EQ(checked_align<uint64_t>(1, 32), 32u);
  EXPECT_EQ(checked_align<uint64_t>(64, 32), 64u);
  EXPECT_EQ(checked_align<uint64_t>(7, 1), 7u);
  EXPECT_EQ(checked_align<uint64_t>(kMax - 5, 32), std::nullopt);
}

TEST(Checked, SaturatingSubStopsAtZero) {
  EXPECT_EQ(saturating_sub<uint64_t>(7, 5), 2u);
  EXPECT_EQ(saturating_sub<uint64_t>(5, 5), 0u);
  EXPECT_EQ(saturating_sub<uint64_t>(5, 7), 0u);
  EXPECT_EQ(saturating_sub<uint64_t>(0, kMax), 0u);
  EXPECT_EQ(saturating_sub<uint64_t>(kMax, 0), kMax);
  EXPECT_EQ(saturating_sub<uint8_t>(3, 200), 0u);
}

}  // namespace
}  // namespace ibid
