#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ibid {
namespace {

bool is_scalar(uint32_t c) { return c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF); }

TEST(Utf8, EveryScalarValueRoundTrips) {
  for (uint32_t c = 0; c <= 0x10FFFF; ++c) {
    if (!is_scalar(c)) continue;
    std::string text;
    utf8_append(text, c);
    const DecodedChar decoded = utf8_decode(text, 0);
    ASSERT_TRUE(decoded.valid) << c;
    ASSERT_EQ(decoded.code_point, c);
    ASSERT_EQ(decoded.length, text.size());
    ASSERT_EQ(text.size(), c < 0x80 ? 1u : c < 0x800 ? 2u : c < 0x10000 ? 3u : 4u);
  }
}

// Validates a sequence with every rule written out, as the reference for the table.
bool valid_by_arithmetic(const std::string& s) {
  const auto byte = [&s](size_t i) { return static_cast<unsigned char>(s[i]); };
  for (size_t i = 1; i < s.size(); ++i) {
    if ((byte(i) & 0xC0) != 0x80) return false;
  }
  if (s.size() == 1) return byte(0) < 0x80;
  const unsigned lead_bits[] = {0, 0, 0xC0, 0xE0, 0xF0};
  const unsigned lead_mask[] = {0, 0, 0xE0, 0xF0, 0xF8};
  const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if ((byte(0) & lead_mask[s.size()]) != lead_bits[s.size()]) return false;
  uint32_t c = byte(0) & ~lead_mask[s.size()];
  for (size_t i = 1; i < s.size(); ++i) c = c << 6 | (byte(i) & 0x3Fu);
  return c >= smallest[s.size()] && is_scalar(c);
}

TEST(Utf8, AcceptsExactlyTheWellFormedSequences) {
  std::string two(2, '\0');
  std::string three(3, '\0');
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      two[0] = three[0] = static_cast<char>(a);
      two[1] = three[1] = static_cast<char>(b);
      const DecodedChar decoded = utf8_decode(two, 0);
      ASSERT_EQ(decoded.valid && decoded.length == 2, valid_by_arithmetic(two)) << a << ' ' << b;
      for (int c = 0; c < 256; c += 3) {
        three[2] = static_cast<char>(c);
        const DecodedChar of_three = utf8_decode(three, 0);
        ASSERT_EQ(of_three.valid && of_three.length == 3, valid_by_arithmetic(three)) << a << ' ' << b << ' ' << c;
      }
    }
  }
  for (int a = 0xE0; a < 256; ++a) {
    for (int b = 0x70; b < 0xD0; ++b) {
      const std::string four{static_cast<char>(a), static_cast<char>(b), '\x80', '\xBF'};
      const DecodedChar decoded = utf8_decode(four, 0);
      ASSERT_EQ(decoded.valid && decoded.length == 4, valid_by_arithmetic(four)) << a << ' ' << b;
    }
  }
}

TEST(Utf8, InvalidSequenceConsumesItsMaximalValidPrefix) {
  struct Case {
    std::string text;
    std::vector<size_t> lengths;
  };
  // The examples of Unicode 15, section 3.9, tables 3-8 to 3-11.
  const Case cases[] = {
      {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", {1, 1, 1, 1, 1, 1, 1, 1, 1}},
      {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", {1, 1, 1, 1, 1, 1, 1, 1, 1}},
      {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", {1, 1, 1, 1, 1, 1, 1, 1, 1}},
      {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", {2, 1, 3, 2, 1}},
  };
  for (const Case& c : cases) {
    std::vector<size_t> lengths;
    for (size_t offset = 0; offset < c.text.size();) {
      const DecodedChar decoded = utf8_decode(c.text, offset);
      if (!decoded.valid) {
        EXPECT_EQ(decoded.code_point, kReplacementCharacter);
      }
      lengths.push_back(decoded.length);
      offset += decoded.length;
    }
    EXPECT_EQ(lengths, c.lengths);
    EXPECT_FALSE(utf8_is_valid(c.text));
  }
}

TEST(Utf8, IncompleteTailIsTheStartOfOneCharacter) {
  for (const uint32_t c : {0x41u, 0xE9u, 0x7FFu, 0x800u, 0xFFFDu, 0xD7FFu, 0x10000u, 0x1F600u, 0x10FFFFu}) {
    std::string text = "a\xC3\xA9";
    const size_t before = text.size();
    utf8_append(text, c);
    for (size_t cut = before; cut <= text.size(); ++cut) {
      const size_t expected = cut == text.size() ? 0 : cut - before;
      EXPECT_EQ(utf8_incomplete_tail(std::string_view(text).substr(0, cut)), expected) << c << " cut " << cut;
    }
  }
  EXPECT_EQ(utf8_incomplete_tail(""), 0u);
  EXPECT_EQ(utf8_incomplete_tail("\xE2\x82"), 2u);
}

TEST(Utf8, InvalidBytesAreNotAnIncompleteTail) {
  for (const char* text : {"\x80", "\xBF\xBF\xBF", "\xC0", "\xC1", "\xF5", "\xFF", "\xE0\x80", "\xED\xA0", "\xF0\x8F",
                           "\xF4\x90", "\xF0\x90\x41", "\xC3\xA9\xA9", "\xE2\x82\xAC\x80"}) {
    EXPECT_EQ(utf8_incomplete_tail(text), 0u) << testing::PrintToString(text);
  }
}

TEST(Utf8, SanitizeReplacesOncePerInvalidSequence) {
  EXPECT_EQ(utf8_sanitize("plain \xC3\xA9"), "plain \xC3\xA9");
  EXPECT_EQ(utf8_sanitize("a\xE1\x80z\xFF"), "a\xEF\xBF\xBDz\xEF\xBF\xBD");
  EXPECT_EQ(utf8_sanitize("\xF0\x9F\x98"), "\xEF\xBF\xBD");
  EXPECT_EQ(utf8_sanitize(std::string_view("\0x", 2)), std::string_view("\0x", 2));
  EXPECT_TRUE(utf8_is_valid(utf8_sanitize("\xED\xA0\x80\xF4\x91\x92\x93\xC0\xAF")));
}

TEST(Utf8, LengthCountsAnInvalidSequenceAsOne) {
  EXPECT_EQ(utf8_length(""), 0u);
  EXPECT_EQ(utf8_length("a\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80"), 4u);
  EXPECT_EQ(utf8_length("a\xE2\x82"), 2u);
}

}  // namespace
}  // namespace ibid
