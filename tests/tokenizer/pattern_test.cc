#include "tokenizer/splitting/pattern.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <utility>

#include "tests/tokenizer/golden_tokenizers.h"

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
  Pattern::Memory memory;
  Found out;
  out.end = pattern.match({text, 0, text.size(), text.size()}, at, memory, out.touched);
  EXPECT_TRUE(memory.retreats.empty());
  return out;
}

TEST(Pattern, TakesTheFirstAlternativeThatMatches) {
  EXPECT_EQ(match("a|ab", "abc"), (Found{1, false}));
  EXPECT_EQ(match("ab|a", "abc"), (Found{2, false}));
  EXPECT_EQ(match("(?:a|ab)c", "abc"), (Found{3, false}));
  EXPECT_EQ(match("x|y", "abc"), (Found{std::nullopt, false}));
}

TEST(Pattern, RepeatBacktracksUnlessPossessive) {
  EXPECT_EQ(match("a*ab", "aaab "), (Found{4, false}));
  EXPECT_EQ(match("a*+ab", "aaab ").end, std::nullopt);
  EXPECT_EQ(match("\\s+(?!\\S)|\\s+", "   a"), (Found{2, false}));
  EXPECT_EQ(match("\\s*[\\r\\n]+", " \n \n  x"), (Found{4, false}));
  EXPECT_EQ(match("\\p{N}{1,2}", "1234"), (Found{2, false}));
  EXPECT_EQ(match("\\p{N}{3}", "12a").end, std::nullopt);
}

TEST(Pattern, RepeatedGroupsAreMatched) {
  EXPECT_EQ(match("(?:ab)+", "ababa "), (Found{4, false}));
  EXPECT_EQ(match("(?:ab)*c", "c "), (Found{1, false}));
  EXPECT_EQ(match("x(?:ab)?y", "xaby "), (Found{4, false}));
  EXPECT_EQ(match("(?:\\d{3})*\\b", "123456 ").end, 6u);
  EXPECT_EQ(match("(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+", "e\u0301 a b1"), (Found{7, false}));
}

TEST(Pattern, LookaheadIsMatched) {
  EXPECT_EQ(match("a(?=b)", "ab"), (Found{1, false}));
  EXPECT_EQ(match("a(?=b)", "ac").end, std::nullopt);
  EXPECT_EQ(match("a(?!b)", "ac"), (Found{1, false}));
  EXPECT_EQ(match("a(?!b)", "a"), (Found{1, true}));
}

TEST(Pattern, MatchesCharacterSets) {
  EXPECT_EQ(match("[^\\s\\p{L}]+", "1!\u4E00").end, 2u);
  EXPECT_EQ(match("[a-c\\-x]+", "ab-xd").end, 4u);
  EXPECT_EQ(match("[\u4e00-\u9fa5]+", "\u4E00\u9FA5\u9FA6").end, 6u);
  EXPECT_EQ(match("[\\p{Lo}\\p{M}&&[^\\p{Han}]]+", "\u3042\u4E00").end, 3u);
  EXPECT_EQ(match("(?i:'s)", "'\u017F").end, 3u);
  EXPECT_EQ(match("'(?i:[sd]|ll)", "'LL").end, 3u);
  EXPECT_EQ(match("\\S", "\xFF").end, 1u);
  EXPECT_EQ(match("\\p{L}|\\p{P}|\\p{S}", "\xFF").end, std::nullopt);
}

TEST(Pattern, MatchesLineEndsAndWordBoundaries) {
  EXPECT_EQ(match("a$", "a\nb").end, 1u);
  EXPECT_EQ(match("a$", "ab").end, std::nullopt);
  EXPECT_EQ(match("a$", "a"), (Found{1, true}));
  EXPECT_EQ(match("a\\b", "a b").end, 1u);
  EXPECT_EQ(match("a\\b", "ab").end, std::nullopt);
}

TEST(Pattern, MatchReportsWhetherItReadTheEndOfTheText) {
  EXPECT_EQ(match("\\p{L}+", "abc"), (Found{3, true}));
  EXPECT_EQ(match("\\p{L}+", "abc "), (Found{3, false}));
  EXPECT_EQ(match("ab", "a"), (Found{std::nullopt, true}));
  EXPECT_EQ(match("[^a]", "\xE4\xB8"), (Found{2, true}));  // the bytes may become another character
}

TEST(Pattern, MatchesNestedAndNegatedSets) {
  EXPECT_EQ(match("[^(\\s|[.,!?]]+", "ab.c").end, 2u);
  EXPECT_EQ(match("[a[bc]d]+", "abcde").end, 4u);
  EXPECT_EQ(match("[^\\S\\n]+", " \t\n").end, 2u);
  EXPECT_EQ(match("\\P{L}+", "1!a").end, 2u);
  EXPECT_EQ(match("\\p{^L}+", "1!a").end, 2u);
  EXPECT_EQ(match("[\\W\\d]+", "1!a").end, 2u);
  EXPECT_EQ(match(".+", "ab\n").end, 2u);
  EXPECT_EQ(match("\\x{1F600}\\u4e00\\x41", "\U0001F600\u4E00A").end, 8u);
  EXPECT_EQ(match("[\\p{L}&&[^\\p{Han}a-y]]+", "z\u00E9a").end, 3u);
  EXPECT_EQ(match("[\\s[^a]]+", "b\xFF\u00E9a").end, 4u);
}

TEST(Pattern, MatchesCountedRepeats) {
  EXPECT_EQ(match("(?:ab|a){2,3}c", "ababac ").end, 6u);
  EXPECT_EQ(match("(?:ab){,2}c", "ababc ").end, 5u);
  EXPECT_EQ(match("(?:ab){2,}", "abababa ").end, 6u);
  EXPECT_EQ(match("a{0}(?:bc){0,0}d", "d").end, 1u);
  EXPECT_EQ(match("\\d{1,3}+x", "12345x").end, 6u);  // + after {1,3} repeats the counted item
}

TEST(Pattern, UnsupportedSyntaxIsReported) {
  const auto words = [](std::string_view expression) {
    const Result<Pattern> pattern = Pattern::parse(expression);
    return pattern.ok() ? "" : pattern.status().message();
  };
  EXPECT_EQ(words("a|b"), "");
  EXPECT_EQ(words("ab*?c"), "a lazy quantifier, which is not supported, at byte 2 of the pattern");
  for (const auto& [expression, wanted] : {std::pair("a+?", "lazy"),
                                           std::pair("(?<=a)b", "(?<"),
                                           std::pair("(?<n>a)", "(?<"),
                                           std::pair("(?>a)", "(?>"),
                                           std::pair("\\1", "\\1"),
                                           std::pair("\\Aa", "\\A"),
                                           std::pair("^a", "a ^"),
                                           std::pair("[[:alpha:]]", "[:name:]"),
                                           std::pair("\\p{Greek}", "\\p{Greek}"),
                                           std::pair("\\pL", "braces"),
                                           std::pair("(a", "( without"),
                                           std::pair("a)", ") without"),
                                           std::pair("[a", "]"),
                                           std::pair("[]", "empty set"),
                                           std::pair("a{5,2}", "count"),
                                           std::pair("a{1001}", "count"),
                                           std::pair("(?:a*)*", "may be empty"),
                                           std::pair("(?:ab)++", "possessive"),
                                           std::pair("a**", "quantifier of a quantifier"),
                                           std::pair("*a", "* at an unsupported place"),
                                           std::pair("a\\", "trailing backslash"),
                                           std::pair("(?i:ss)", "ss after"),
                                           std::pair("(?i:\u00e9)", "beyond ASCII"),
                                           std::pair("[b-a]", "range"),
                                           std::pair("[\\p{L}&&\\p{Lu}]", "&&"),
                                           std::pair("\xFF", "UTF-8"),
                                           std::pair("\\x{110000}", "not a character")}) {
    EXPECT_NE(words(expression).find(wanted), std::string::npos) << expression << ": " << words(expression);
  }
  EXPECT_FALSE(Pattern::parse(std::string(300, '(')).ok());
  EXPECT_FALSE(Pattern::parse("(?:(?:abcdefghij){1000}){1000}").ok());
  std::string empty = "(?:)";
  for (int i = 0; i < 50; ++i) empty = "(?:" + empty + "{1000})";
  EXPECT_TRUE(Pattern::parse(empty + 'a').ok());
  EXPECT_FALSE(Pattern::parse("(?:(?:(?:(?=a){1000}){1000}){1000}){1000}").ok());
  EXPECT_FALSE(Pattern::parse(std::string(Pattern::kMaxInstructions, 'a')).ok());
}

// Patterns that take exponential or quadratic time if failures are not recorded.
TEST(Pattern, HostilePatternTakesTimeLinearInTheText) {
  const std::string letters(200'000, 'a'), digits(200'000, '1');
  struct Case {
    const char* expression;
    const std::string& text;
    size_t n_matches;
  };
  for (const Case& one :
       {Case{"(?:a|a|aa)+b", letters, 0}, Case{"(?:(?:a+)+)+b", letters, 0}, Case{"a+(?=b)|a", letters, 200'000},
        Case{"a+b", letters, 0}, Case{"\\d{1,3}(?=(?:\\d{3})*\\b)", digits, 66'667},
        Case{"(?=(\\d{3})+(?!\\d))1", digits, 66'666}, Case{"1(?=\\d*2)", digits, 0}}) {
    const Pattern pattern(one.expression);
    Pattern::Memory memory;
    size_t n_matches = 0;
    for (size_t pos = 0; pos < one.text.size();) {
      bool touched = false;
      const auto end = pattern.match({one.text, 0, one.text.size(), one.text.size()}, pos, memory, touched);
      n_matches += end ? 1 : 0;
      pos = end && *end > pos ? *end : pos + 1;
    }
    EXPECT_EQ(n_matches, one.n_matches) << one.expression;
    EXPECT_LE(memory.steps, 100 * one.text.size()) << one.expression;
  }
}

// A pattern finds the same with and without recorded failures.
TEST(Pattern, MemoizationDoesNotChangeMatches) {
  std::mt19937_64 random(test_seed());
  for (const char* expression :
       {"(?:a|ab|b)+c", "(?:a+b?)+(?=c)|a", "\\d{1,3}(?=(?:\\d{3})*\\b)", "a*ab|b*+c|b", "(?=(?:ab)+c)a|b+$",
        "(?:a(?!b)|b(?=a+c))+", "(?:a{1,2}b){1,3}c|a+b", "[ab]+c|[ab]{2}(?=[bc]*a)"}) {
    const Pattern pattern(expression);
    for (int i = 0; i < 2'000; ++i) {
      std::string text;
      for (uint64_t n = 1 + random() % 30; n > 0; --n) text += "abc1 "[random() % (i % 2 == 0 ? 3 : 5)];
      const PatternWindow window{text, 0, text.size(), text.size()};
      Pattern::Memory long_memory;
      long_memory.steps = 1'000'000;
      for (size_t pos = 0; pos < text.size(); ++pos) {
        Pattern::Memory fresh;
        bool touched = false, touched_then = false;
        const auto wanted = pattern.match(window, pos, fresh, touched);
        ASSERT_EQ(pattern.match(window, pos, long_memory, touched_then), wanted) << expression << " " << text << pos;
        ASSERT_GE(touched_then, touched) << expression << " " << text << pos;
      }
    }
  }
}

TEST(Pattern, LongRunsDoNotRecurse) {
  const std::string letters(1'000'000, 'a');
  EXPECT_EQ(match("(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+", letters).end, letters.size());
  EXPECT_EQ(match("\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", std::string(1'000'000, ' ')).end, 1'000'000u);
}

}  // namespace
}  // namespace ibid
