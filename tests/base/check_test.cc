#include "base/check.h"

#include <gtest/gtest.h>

#include <string>

#include "base/result.h"

namespace ibid {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return Status(ErrorCode::kBadNumber, std::to_string(n) + " is odd");
  return n / 2;
}

Result<int> quarter(int n) {
  TRY_ASSIGN(const int once, half(n));
  TRY_ASSIGN(const int twice, half(once));
  return twice;
}

Status is_multiple_of_four(int n) {
  TRY(quarter(n).status());
  return {};
}

TEST(Result, TryReturnsTheFirstError) {
  EXPECT_EQ(*quarter(12), 3);
  EXPECT_EQ(quarter(6).status().to_string(), "BadNumber: 3 is odd");
  EXPECT_TRUE(is_multiple_of_four(8).ok());
  EXPECT_EQ(is_multiple_of_four(7).message(), "7 is odd");
}

TEST(Result, EveryErrorCodeHasAName) {
  for (int i = 0; i <= static_cast<int>(ErrorCode::kDeadline); ++i) {
    EXPECT_NE(error_code_name(static_cast<ErrorCode>(i)), "Unknown") << i;
  }
  EXPECT_EQ(error_code_name(ErrorCode::kBadMagic), "BadMagic");
}

TEST(CheckDeathTest, FailurePrintsConditionAndStreamedMessage) {
  const int got = 3;
  CHECK(got == 3) << "not evaluated";
  CHECK_EQ(got, 3);
  EXPECT_DEATH(CHECK(got == 4) << "rows", "check_test.cc:[0-9]+: CHECK failed: got == 4 rows");
  EXPECT_DEATH(CHECK_LT(got, 3), "3 vs 3");
  EXPECT_DEATH(static_cast<void>(half(5).value()), "5 is odd");
  EXPECT_DEATH(static_cast<void>(Result<int>(Status())), "CHECK failed");
}

}  // namespace
}  // namespace ibid
