#include "tests/support/manual_clock.h"

#include <gtest/gtest.h>

namespace ibid {
namespace {

TEST(Clock, ManualClockMovesOnlyByAdvance) {
  ManualClock clock(1'700'000'000'000'000'000);
  EXPECT_EQ(clock.steady_ns(), 0);
  clock.advance(5);
  clock.advance(7);
  EXPECT_EQ(clock.steady_ns(), 12);
  EXPECT_EQ(clock.unix_ns(), 1'700'000'000'000'000'012);
}

TEST(Clock, SystemClockIsSteadyAndCountsFrom1970) {
  Clock& clock = system_clock();
  const int64_t before = clock.steady_ns();
  EXPECT_LE(before, clock.steady_ns());
  EXPECT_GT(clock.unix_ns(), int64_t{1'600'000'000} * 1'000'000'000);
}

}  // namespace
}  // namespace ibid
