#include "apps/terminal/terminal_text.h"

#include <gtest/gtest.h>

namespace ibid {
namespace {

TEST(WithoutControls, RemovesControlCharactersOnly) {
  EXPECT_EQ(without_controls("a\tb\nc"), "a\tb\nc");
  EXPECT_EQ(without_controls("\x1b[2Jgone\x07\r"), "[2Jgone");
  EXPECT_EQ(without_controls("\x7f\xC2\x9B"
                             "31m"),
            "31m");  // DEL, and CSI as one character
  EXPECT_EQ(without_controls("na\xC3\xAFve \xC2\xA0 \xF0\x9F\x98\x80"), "na\xC3\xAFve \xC2\xA0 \xF0\x9F\x98\x80");
}

TEST(OneLine, EscapesNewlinesAndTabs) { EXPECT_EQ(one_line("a\nb\tc\x1b[0m"), "a\\nb\\tc[0m"); }

}  // namespace
}  // namespace ibid
