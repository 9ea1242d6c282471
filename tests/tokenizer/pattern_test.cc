#include "tokenizer/pattern.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace ibid {
namespace {

struct Found {
  std::optional<size_t> end;
  bool touched = false;
  friend bool operator==(const Found&, const Found&) = default;
};
void PrintTo(const Found& found, std::ostream* out) {
  *out << (found.end ? std::to_string(*found.end) : "none") << (found.touched ? " touched" : "");
}

Found match(std::string_view expression, std::string_view text, size_t at = 0) {
  const Pattern pattern(expression);
  std::vector<Pattern::Retreat> scratch;
  Found out;
  out.end = pattern.match({text, 0, text.size(), text.size()}, at, scratch, out.touched);
  EXPECT_TRUE(scratch.empty());
  return out;
}

TEST(Pattern, TakesTheFirstAlternativeThatMatches) {
  EXPECT_EQ(match("a|ab", "abc"), (Found{1, false}));
  EXPECT_EQ(match("ab|a", "abc"), (Found{2, false}));
  EXPECT_EQ(match("(?:a|ab)c", "abc"), (Found{3, false}));
  EXPECT_EQ(match("x|y", "abc"), (Found{std::nullopt, false}));
}

TEST(Pattern, GivesBackUnlessPossessive) {
  EXPECT_EQ(match("a*ab", "aaab "), (Found{4, false}));
  EXPECT_EQ(match("a*+ab", "aaab ").end, std::nullopt);
  EXPECT_EQ(match("\\s+(?!\\S)|\\s+", "   a"), (Found{2, false}));
  EXPECT_EQ(match("\\s*[\\r\\n]+", " \n \n  x"), (Found{4, false}));
  EXPECT_EQ(match("\\p{N}{1,2}", "1234"), (Found{2, false}));
  EXPECT_EQ(match("\\p{N}{3}", "12a").end, std::nullopt);
}

TEST(Pattern, RepeatsGroups) {
  EXPECT_EQ(match("(?:ab)+", "ababa "), (Found{4, false}));
  EXPECT_EQ(match("(?:ab)*c", "c "), (Found{1, false}));
  EXPECT_EQ(match("x(?:ab)?y", "xaby "), (Found{4, false}));
  EXPECT_EQ(match("(?:\\d{3})*\\b", "123456 ").end, 6u);
  EXPECT_EQ(match("(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+", "e\u0301 a b1"), (Found{7, false}));
}

TEST(Pattern, LooksAhead) {
  EXPECT_EQ(match("a(?=b)", "ab"), (Found{1, false}));
  EXPECT_EQ(match("a(?=b)", "ac").end, std::nullopt);
  EXPECT_EQ(match("a(?!b)", "ac"), (Found{1, false}));
  EXPECT_EQ(match("a(?!b)", "a"), (Found{1, true}));
}

TEST(Pattern, KnowsSetsOfCharacters) {
  EXPECT_EQ(match("[^\\s\\p{L}]+", "1!\u4E00").end, 2u);
  EXPECT_EQ(match("[a-c\\-x]+", "ab-xd").end, 4u);
  EXPECT_EQ(match("[\u4e00-\u9fa5]+", "\u4E00\u9FA5\u9FA6").end, 6u);
  EXPECT_EQ(match("[\\p{Lo}\\p{M}&&[^\\p{Han}]]+", "\u3042\u4E00").end, 3u);
  EXPECT_EQ(match("(?i:'s)", "'\u017F").end, 3u);
  EXPECT_EQ(match("'(?i:[sd]|ll)", "'LL").end, 3u);
  EXPECT_EQ(match("\\S", "\xFF").end, 1u);
  EXPECT_EQ(match("\\p{L}|\\p{P}|\\p{S}", "\xFF").end, std::nullopt);
}

TEST(Pattern, KnowsEndsOfLinesAndWords) {
  EXPECT_EQ(match("a$", "a\nb").end, 1u);
  EXPECT_EQ(match("a$", "ab").end, std::nullopt);
  EXPECT_EQ(match("a$", "a"), (Found{1, true}));
  EXPECT_EQ(match("a\\b", "a b").end, 1u);
  EXPECT_EQ(match("a\\b", "ab").end, std::nullopt);
}

TEST(Pattern, SaysWhetherItLookedAtTheEnd) {
  EXPECT_EQ(match("\\p{L}+", "abc"), (Found{3, true}));
  EXPECT_EQ(match("\\p{L}+", "abc "), (Found{3, false}));
  EXPECT_EQ(match("ab", "a"), (Found{std::nullopt, true}));
  EXPECT_EQ(match("[^a]", "\xE4\xB8"), (Found{2, true}));  // may become another character
}

TEST(Pattern, ALongRunCostsNoStack) {
  const std::string letters(1'000'000, 'a');
  EXPECT_EQ(match("(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+", letters).end, letters.size());
  EXPECT_EQ(match("\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", std::string(1'000'000, ' ')).end, 1'000'000u);
}

}  // namespace
}  // namespace ibid
