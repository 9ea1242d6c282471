#include "templates/jinja/python_text.h"

#include <gtest/gtest.h>

#include <string>

namespace ibid::jinja {
namespace {

size_t count(bool (*has)(uint32_t)) {
  size_t n = 0;
  for (uint32_t c = 0; c < 0x110000; ++c) n += c - 0xD800 < 0x800 ? 0u : has(c) ? 1u : 0u;
  return n;
}

// The numbers were counted from the tables of Unicode 16.0. Python 3.11 (Unicode 14.0) agrees for all characters that
// it has, except ten numerals, five lower case letters and one ignorable mark.
TEST(JinjaUnicode, CharacterClassesAreThoseOfPythonsStr) {
  EXPECT_EQ(count(is_printable), 154810u);
  EXPECT_EQ(count(is_alpha), 141028u);
  EXPECT_EQ(count(is_decimal), 760u);
  EXPECT_EQ(count(is_digit), 888u);
  EXPECT_EQ(count(is_numeric), 2002u);
  EXPECT_EQ(count(is_space), 29u);
  EXPECT_EQ(count(is_lower), 2569u);
  EXPECT_EQ(count(is_upper), 1978u);
  EXPECT_EQ(count(is_title), 31u);
}

TEST(JinjaUnicode, CharacterClassesDifferFromUnicodeAsInPython) {
  EXPECT_TRUE(is_printable(' '));
  EXPECT_FALSE(is_printable(0xA0)) << "a space, but not the space";
  EXPECT_FALSE(is_printable(0xAD));
  EXPECT_FALSE(is_printable(0x378)) << "unassigned";
  EXPECT_TRUE(is_space(0x1C)) << "a separator of ASCII, which is no White_Space";
  EXPECT_FALSE(is_space(0x200B));
  EXPECT_TRUE(is_digit(0xB2) && !is_decimal(0xB2)) << "superscript two";
  EXPECT_TRUE(is_numeric(0x4E00) && !is_digit(0x4E00)) << "the ideograph one";
  EXPECT_TRUE(is_title(0x1C5) && !is_upper(0x1C5));
}

TEST(JinjaUnicode, CaseMappingsMayChangeTheLength) {
  const auto changed = [](const std::string& text, CaseChange change) {
    return std::string(change_case(MarkedText(text, TextOrigin::kTemplate), change).view());
  };
  EXPECT_EQ(changed("stra\u00DFe \uFB01x \u019B", CaseChange::kUpper), "STRASSE FIX \uA7DC");
  EXPECT_EQ(changed("\u0130X", CaseChange::kLower), "i\u0307x");
  EXPECT_EQ(changed("\u01C6a \uFB01x", CaseChange::kTitle), "\u01C5a Fix");
  EXPECT_EQ(changed("Stra\u00DFe", CaseChange::kFold), "strasse");
  EXPECT_EQ(changed("\u039F\u0394\u039F\u03A3 \u03A3", CaseChange::kLower), "\u03BF\u03B4\u03BF\u03C2 \u03C3");
}

}  // namespace
}  // namespace ibid::jinja
