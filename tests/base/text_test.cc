#include "base/text.h"

#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace ibid {
namespace {

TEST(Text, TrimRemovesSpacesAtBothEndsOnly) {
  EXPECT_EQ(trimmed(" \t a b\r\n"), "a b");
  EXPECT_EQ(trimmed(" \r\n"), "");
  EXPECT_EQ(trimmed(""), "");
  EXPECT_EQ(trimmed("\na ", " "), "\na");
}

TEST(Text, CaseConversionChangesAsciiLettersOnly) {
  EXPECT_EQ(lower_ascii("AZ@[\xC3\x84z"), "az@[\xC3\x84z");
  EXPECT_EQ(upper_ascii('z'), 'Z');
  EXPECT_EQ(upper_ascii('{'), '{');
  EXPECT_TRUE(equals_ignoring_case("Content-Length", "content-LENGTH"));
  EXPECT_FALSE(equals_ignoring_case("a", "ab"));
  EXPECT_TRUE(starts_ignoring_case("<HTML>", "<html"));
  EXPECT_FALSE(starts_ignoring_case("<HT", "<html"));
}

TEST(Text, ReadsAndWritesHexadecimalDigits) {
  EXPECT_EQ(hex_digit('0'), 0);
  EXPECT_EQ(hex_digit('f'), 15);
  EXPECT_EQ(hex_digit('A'), 10);
  for (const char c : {'g', 'G', '/', ':', '@', '`', '\0', '\xC3'}) EXPECT_EQ(hex_digit(c), -1) << int{c};
  std::string out = "\\u";
  append_hex(out, 0x1F60A, 4);
  EXPECT_EQ(out, "\\uf60a");
  append_hex(out, std::numeric_limits<uint64_t>::max(), 16);
  EXPECT_EQ(out, "\\uf60affffffffffffffff");
}

TEST(Text, NumbersAreFormattedAsText) {
  EXPECT_EQ(padded_number(7, 5), "00007");
  EXPECT_EQ(padded_number(123456, 5), "123456");
  EXPECT_EQ(number_text(0.1), "0.1");
  EXPECT_EQ(number_text(-std::numeric_limits<double>::denorm_min()), "-5e-324");
  EXPECT_EQ(number_text(-std::numeric_limits<double>::max()), "-1.7976931348623157e+308");
  EXPECT_EQ(counted(1, "turn"), "1 turn");
  EXPECT_EQ(counted(0, "turn"), "0 turns");
  EXPECT_TRUE(has_only_digits("0123"));
  EXPECT_FALSE(has_only_digits("-1"));
}

TEST(Text, TimesAreFormattedAsUtcDates) {
  EXPECT_EQ(iso_time(0), "1970-01-01T00:00:00");
  EXPECT_EQ(iso_time(1'767'225'599'999'999'999), "2025-12-31T23:59:59") << "not rounded";
  EXPECT_EQ(iso_time(1'835'395'200'000'000'000), "2028-02-29T00:00:00");
  EXPECT_EQ(iso_time(std::numeric_limits<int64_t>::max()), "2262-04-11T23:47:16");
  EXPECT_EQ(iso_time(std::numeric_limits<int64_t>::min()), "1677-09-21T00:12:44");
}

TEST(Text, TwoStringsOfRandomDigitsDiffer) {
  const std::string digits = random_digits();
  EXPECT_EQ(digits.size(), 32u);
  EXPECT_EQ(digits.find_first_not_of("0123456789abcdef"), digits.npos) << digits;
  EXPECT_NE(random_digits(), digits);
}

TEST(Text, PiecesAreJoinedAndSplit) {
  EXPECT_EQ(joined(std::vector<std::string>{"", "a", ""}, ", "), ", a, ");
  EXPECT_EQ(joined(std::vector<std::string_view>{}, ", "), "");
  std::vector<std::string> pieces;
  const auto keep = [&](std::string_view piece) {
    pieces.emplace_back(piece);
    return piece == "stop";
  };
  std::string list;
  append_part(list, "a");
  append_part(list, "b");
  append_part(list, "c", " and ");
  EXPECT_EQ(list, "a, b and c");
  for_each_piece("a||stop|b", '|', keep);
  EXPECT_EQ(pieces, (std::vector<std::string>{"a", "", "stop"}));
  pieces.clear();
  for_each_piece("", '|', keep);
  EXPECT_EQ(pieces, std::vector<std::string>{""});
}

TEST(Text, HostileTextIsQuotedAndCut) {
  EXPECT_EQ(in_quotes("a\x1b[2J\x7f"), "'a?[2J?'");
  EXPECT_EQ(in_quotes("\xff"), "'\xEF\xBF\xBD'");
  const std::string longest(200, 'a');
  EXPECT_EQ(in_quotes(longest).size(), 100u + std::string_view("''...").size());
  EXPECT_EQ(shown_value(longest), longest);
  EXPECT_EQ(shown_value(longest + "a").size(), longest.size() + std::string_view("...").size());
}

}  // namespace
}  // namespace ibid
