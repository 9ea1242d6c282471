// White space in UTF-8 text, scanned forwards and backwards.
#include "base/unicode/unicode.h"

#include <gtest/gtest.h>

#include <string>

namespace ibid {
namespace {

// A blank, a tab, U+00A0, U+2003, U+3000.
const std::string kSpaces = " \t\xC2\xA0\xE2\x80\x83\xE3\x80\x80";

TEST(Spaces, SpacesAreFoundInBothDirections) {
  const std::string text = "a" + kSpaces + "b";
  EXPECT_EQ(spaces_end(text, 1), 1 + kSpaces.size());
  EXPECT_EQ(spaces_begin(text, 1 + kSpaces.size()), 1u);
  EXPECT_EQ(spaces_end(text, 0), 0u);
  EXPECT_EQ(spaces_begin(text, text.size()), text.size());
  EXPECT_EQ(spaces_end(kSpaces, 0), kSpaces.size());
  EXPECT_EQ(spaces_begin(kSpaces, kSpaces.size()), 0u);
  EXPECT_EQ(spaces_end("", 0), 0u);
  EXPECT_EQ(spaces_begin("", 0), 0u);
}

TEST(Spaces, BackwardSearchStopsAtTheGivenLowerLimit) { EXPECT_EQ(spaces_begin("    ", 4, 2), 2u); }

// Truncated characters and invalid bytes end a run of white space in both directions.
TEST(Spaces, InvalidBytesAreNotSpaces) {
  for (const std::string bytes : {"\xE3\x80", "\x80", "\xC2", "\xF0\x9F\x98"}) {
    EXPECT_EQ(spaces_end(bytes + " ", 0), 0u);
    EXPECT_EQ(spaces_begin(" " + bytes, 1 + bytes.size()), 1 + bytes.size());
  }
  EXPECT_EQ(spaces_begin(kSpaces, kSpaces.size() - 1), kSpaces.size() - 1) << "the last character is truncated";
}

}  // namespace
}  // namespace ibid
