#include "base/token_prefix.h"

#include <gtest/gtest.h>

namespace ibid {
namespace {

TEST(CommonPrefixLength, StopsAtTheFirstDifferenceOrShorterLength) {
  const Tokens a{1, 2, 3, 4};
  EXPECT_EQ(common_prefix_length({}, {}), 0u);
  EXPECT_EQ(common_prefix_length(a, {}), 0u);
  EXPECT_EQ(common_prefix_length({}, a), 0u);
  EXPECT_EQ(common_prefix_length(a, a), 4u);
  for (size_t n = 0; n <= 4; ++n) {
    EXPECT_EQ(common_prefix_length(a, TokenSpan(a).first(n)), n);
    EXPECT_EQ(common_prefix_length(TokenSpan(a).first(n), a), n);
    Tokens b = a;
    b.push_back(5);
    b[n] = -1;
    EXPECT_EQ(common_prefix_length(a, b), n);
    EXPECT_EQ(common_prefix_length(b, a), n);
  }
}

}  // namespace
}  // namespace ibid
