#include "base/percent_encoding.h"

#include <gtest/gtest.h>

namespace ibid {
namespace {

TEST(PercentEncodingTest, EscapesBecomeBytes) {
  EXPECT_EQ(percent_decoded(""), "");
  EXPECT_EQ(percent_decoded("a+b c"), "a+b c");
  EXPECT_EQ(percent_decoded("%41%2f%2F%25"), "A//%");
  EXPECT_EQ(percent_decoded("%00"), std::string(1, '\0'));
  EXPECT_EQ(percent_decoded("%ff"), "\xff");
}

TEST(PercentEncodingTest, EscapeWithoutTwoDigitsIsInvalid) {
  for (const char* text : {"%", "a%", "%4", "%4g", "%g4", "%%41", "%-1", "% 1"}) {
    EXPECT_EQ(percent_decoded(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace ibid
