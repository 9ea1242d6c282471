#include "tokenizer/added_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/tokenizer/golden_tokenizers.h"

namespace ibid {
namespace {

using testing::ElementsAre;

// Returns the sections, each as "text" or "[token]".
std::vector<std::string> cut(const AddedTokenSet& set, std::string_view text, TextOrigin origin = TextOrigin::kTemplate,
                             bool after_word = false) {
  const OriginEnd run{text.size(), origin};
  std::vector<std::string> out;
  for (const auto& section : set.split(text, {&run, 1}, after_word, false).sections) {
    const std::string part(text.substr(section.begin, section.end - section.begin));
    out.push_back(section.token == kNoToken ? part : "[" + part + "]");
  }
  return out;
}

TEST(AddedTokens, FindsTheLeftmostThenTheLongestMatch) {
  const AddedTokenSet set(
      {{.text = "ab", .id = 0}, {.text = "abc", .id = 1}, {.text = "bcd", .id = 2}, {.text = "c", .id = 3}});
  EXPECT_THAT(cut(set, "abcd"), ElementsAre("[abc]", "d"));
  EXPECT_THAT(cut(set, "xbcdab"), ElementsAre("x", "[bcd]", "[ab]"));
  EXPECT_THAT(cut(set, "abab c"), ElementsAre("[ab]", "[ab]", " ", "[c]"));
  EXPECT_THAT(cut(set, ""), ElementsAre());
}

TEST(AddedTokens, LstripAndRstripRemoveUnicodeWhiteSpace) {
  const AddedTokenSet set({{.text = "<l>", .id = 0, .lstrip = true}, {.text = "<r>", .id = 1, .rstrip = true}});
  EXPECT_THAT(cut(set, "a \u3000\n<l> b"), ElementsAre("a", "[ \u3000\n<l>]", " b"));
  EXPECT_THAT(cut(set, "a <r>\u2028 b"), ElementsAre("a ", "[<r>\u2028 ]", "b"));
  EXPECT_THAT(cut(set, "<r>  <l>"), ElementsAre("[<r>  ]", "[<l>]"));
  EXPECT_THAT(cut(set, "a\u180E<l>"), ElementsAre("a\u180E", "[<l>]"));
}

TEST(AddedTokens, SingleWordTokenMatchesOnlyBetweenNonWordCharacters) {
  const AddedTokenSet set({{.text = "cat", .id = 0, .single_word = true}});
  EXPECT_THAT(cut(set, "cat, cats cat_ \u00E9cat cat"), ElementsAre("[cat]", ", cats cat_ \u00E9cat ", "[cat]"));
  EXPECT_THAT(cut(set, "cat", TextOrigin::kTemplate, true), ElementsAre("cat"));
}

TEST(AddedTokens, SpecialTokenInInputStaysTextAndPreventsOverlappingMatches) {
  const AddedTokenSet set({{.text = "<|x|>", .id = 0, .special = true}, {.text = "|><|", .id = 1}});
  EXPECT_THAT(cut(set, "<|x|><|", TextOrigin::kInput), ElementsAre("<|x|><|"));
  EXPECT_THAT(cut(set, "|><|", TextOrigin::kInput), ElementsAre("[|><|]"));
}

TEST(AddedTokens, MatchesDoNotSpanTextsOfDifferentOrigins) {
  const AddedTokenSet set({{.text = "<|x|>", .id = 0, .special = true}});
  const std::vector<OriginEnd> runs = {{3, TextOrigin::kTemplate}, {5, TextOrigin::kInput}};
  EXPECT_EQ(set.split("<|x|>", runs, false, false).sections.size(), 1u);
  EXPECT_EQ(set.split("<|x|>", runs, false, false).sections[0].token, kNoToken);
}

// The sections that are certain while a text grows are also sections of the whole text, whatever is appended.
TEST(AddedTokens, AppendedTextDoesNotChangeFinalSections) {
  std::vector<AddedToken> tokens;
  for (int bits = 0; bits < 8; ++bits) {
    tokens.push_back({.text = "<" + std::to_string(bits) + ">",
                      .id = bits,
                      .special = bits == 3,
                      .lstrip = (bits & 1) != 0,
                      .rstrip = (bits & 2) != 0,
                      .single_word = (bits & 4) != 0});
  }
  for (const char* text : {"\n\n\n", "ab", "abc", "bcd", "<1><2>", "w"}) {
    tokens.push_back({.text = text, .id = 100, .single_word = text[0] == 'w'});
  }
  const AddedTokenSet set(tokens);
  const std::vector<std::string> parts = {"<", "0",      "1",  "2", "3", "7", ">",    "<1>",  "<2>",  "\n",
                                          " ", "\n\n\n", "ab", "c", "d", "w", "\xE2", "\x80", "\xA8", "x"};
  std::mt19937_64 random(test_seed());
  size_t n_certain = 0;
  for (int i = 0; i < 30'000; ++i) {
    std::string text, longer;
    for (uint64_t n = 1 + random() % 10; n > 0; --n) text += parts[random() % parts.size()];
    longer = text;
    for (uint64_t n = random() % 5; n > 0; --n) longer += parts[random() % parts.size()];
    const OriginEnd run{text.size(), TextOrigin::kInput}, longer_run{longer.size(), TextOrigin::kInput};
    const auto certain = set.split(text, {&run, 1}, false, true);
    const auto whole = set.split(longer, {&longer_run, 1}, false, false);
    for (size_t s = 0; s < certain.sections.size(); ++s) {
      const auto& a = certain.sections[s];
      const bool is_open = s + 1 == certain.sections.size() && a.token == kNoToken;
      ASSERT_LT(s, whole.sections.size());
      const auto& b = whole.sections[s];
      ASSERT_EQ(a.token, b.token) << testing::PrintToString(text) << " in " << testing::PrintToString(longer);
      ASSERT_EQ(a.begin, b.begin) << testing::PrintToString(text) << " in " << testing::PrintToString(longer);
      if (is_open) {
        ASSERT_LE(a.end, b.end) << testing::PrintToString(text) << " in " << testing::PrintToString(longer);
      } else {
        ASSERT_EQ(a.end, b.end) << testing::PrintToString(text) << " in " << testing::PrintToString(longer);
      }
      ++n_certain;
    }
  }
  EXPECT_GT(n_certain, 30'000u);
}

TEST(AddedTokens, EmptySetFindsNothing) {
  const AddedTokenSet set({});
  EXPECT_TRUE(set.empty());
  EXPECT_THAT(cut(set, "abc"), ElementsAre("abc"));
}

}  // namespace
}  // namespace ibid
