#include "base/unicode/unicode.h"

#include <gtest/gtest.h>

namespace ibid {
namespace {

size_t count(bool (*has)(uint32_t)) {
  size_t n = 0;
  for (uint32_t c = 0; c < 0x110000; ++c) n += has(c) ? 1u : 0u;
  return n;
}

// The totals of Unicode 16.0, from DerivedGeneralCategory.txt and PropList.txt.
TEST(Unicode, CharacterCountsMatchUnicode16) {
  EXPECT_EQ(count(is_letter), 141028u);
  EXPECT_EQ(count(is_number), 1911u);
  EXPECT_EQ(count(is_mark), 2501u);
  EXPECT_EQ(count(is_space), 25u);
}

TEST(Unicode, WhiteSpaceFollowsTheProperty) {
  for (const uint32_t c : {0x09u, 0x0Du, 0x20u, 0x85u, 0xA0u, 0x1680u, 0x2028u, 0x2029u, 0x202Fu, 0x205Fu, 0x3000u}) {
    EXPECT_TRUE(is_space(c)) << std::hex << c;
  }
  for (const uint32_t c : {0x08u, 0x1Cu, 0x180Eu, 0x200Bu, 0x2060u, 0xFEFFu}) {
    EXPECT_FALSE(is_space(c)) << std::hex << c;
  }
}

TEST(Unicode, LettersNewInUnicode16AreLetters) {
  EXPECT_TRUE(is_letter(0x1C89));   // CYRILLIC CAPITAL LETTER TJE, new in 16.0
  EXPECT_TRUE(is_letter(0x10D50));  // GARAY CAPITAL LETTER A, new in 16.0
  EXPECT_FALSE(is_letter(0x0378));
}

TEST(Unicode, WordCharactersIncludeMarksDigitsConnectorsAndJoiners) {
  EXPECT_TRUE(is_word('_'));
  EXPECT_TRUE(is_word('7'));
  EXPECT_TRUE(is_word(0x0301));
  EXPECT_TRUE(is_word(0x200D));
  EXPECT_TRUE(is_word(0x24B6));  // CIRCLED LATIN CAPITAL LETTER A: Alphabetic, but not a letter
  EXPECT_FALSE(is_word('-'));
  EXPECT_FALSE(is_word(0x00B2));
}

TEST(Unicode, CodePointsAtTheLimitsHaveCategories) {
  EXPECT_EQ(general_category(0), GeneralCategory::Cc);
  EXPECT_EQ(general_category(0xD800), GeneralCategory::Cs);
  EXPECT_EQ(general_category(0x10FFFD), GeneralCategory::Co);
  EXPECT_EQ(general_category(0x10FFFF), GeneralCategory::Cn);
  EXPECT_TRUE(is_han(0x4E00));
  EXPECT_FALSE(is_han(0x3001));  // in Script_Extensions=Han, but not in Script=Han
}

}  // namespace
}  // namespace ibid
