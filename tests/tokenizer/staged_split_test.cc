#include "tokenizer/splitting/staged_split.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/tokenizer/golden_tokenizers.h"

namespace ibid {
namespace {

constexpr const char* kSplitNames[] = {"falcon",     "default",    "deepseek-coder", "deepseek-llm", "jais-2",
                                       "youtu",      "bloom",      "viking",         "chameleon",    "kimi-k2",
                                       "bailingmoe", "seed-coder", "minicpm5",       "laguna",       "exaone-moe"};

std::vector<std::string> pieces(const StagedSplit& split, std::string_view text) {
  std::vector<std::string> out;
  ScanMemory memory;
  for (size_t pos = 0; pos < text.size();) {
    const Piece piece = split.scan(text, pos, memory);
    if (!piece.dropped) out.emplace_back(text.substr(pos, piece.end - pos));
    pos = piece.end;
  }
  return out;
}

StagedSplit make(const std::vector<SplitStep>& steps) {
  Result<StagedSplit> split = StagedSplit::create(steps);
  CHECK(split.ok()) << split.status().message();
  return std::move(split).value();
}
StagedSplit make(std::string_view signature) { return make(split_steps(signature)); }

using Pieces = std::vector<std::string>;

TEST(StagedSplit, LaterStepsSplitInsideEarlierPieces) {
  EXPECT_EQ(pieces(make("Punctuation:contiguous\nByteLevel\nDigits:contiguous\n[0-9][0-9][0-9]"), "a 12345?! b"),
            (Pieces{"a", " ", "123", "45", "?!", " b"}));
  EXPECT_EQ(pieces(make("Digits:individual\n\\p{L}+"), "ab12!c"), (Pieces{"ab", "1", "2", "!", "c"}));
  EXPECT_EQ(pieces(make("Punctuation:isolated"), "a!?b"), (Pieces{"a", "!", "?", "b"}));
}

TEST(StagedSplit, TextIsOnePieceWithoutSplitSteps) {
  const StagedSplit split = make(std::vector<SplitStep>{});
  EXPECT_EQ(pieces(split, "one text, 2 words"), (Pieces{"one text, 2 words"}));
  ScanMemory memory;
  EXPECT_TRUE(split.scan("text", 0, memory).touched_end) << "an append may change it";
}

TEST(StagedSplit, WhitespaceAndDigitsMatchRustsClasses) {
  const auto words = [](std::string_view text) {
    return pieces(make({{"Whitespace", SplitBehavior::kRemoved, true}}), text);
  };
  EXPECT_EQ(words("\u0645\u06cc\u200c\u062e x\u200dy"), (Pieces{"\u0645\u06cc\u200c\u062e", "x\u200dy"}));
  EXPECT_EQ(words("x\u00b2 \u00bd"), (Pieces{"x", "\u00b2", "\u00bd"}));
  EXPECT_EQ(words("a_b, \u0300\u2160"), (Pieces{"a_b", ",", "\u0300\u2160"}));
  for (const char* signature : {"Digits:individual", "Digits:individual\nByteLevel"}) {
    EXPECT_EQ(pieces(make(signature), "a\U00011de0\U00016ff4b"), (Pieces{"a", "\U00011de0", "\U00016ff4", "b"}));
  }
  EXPECT_EQ(pieces(make("Digits:contiguous"), "a1\U00011de0\U00016ff4b"), (Pieces{"a", "1\U00011de0\U00016ff4", "b"}));
}

TEST(StagedSplit, SplitBehaviorDecidesHowMatchesFormPieces) {
  using enum SplitBehavior;
  const auto cut = [](SplitBehavior behavior, bool invert) {
    return pieces(make({{{"[,.]", behavior, invert}}}), "a,.b.,");
  };
  EXPECT_EQ(cut(kIsolated, false), (Pieces{"a", ",", ".", "b", ".", ","}));
  EXPECT_EQ(cut(kRemoved, false), (Pieces{"a", "b"}));
  EXPECT_EQ(cut(kRemoved, true), (Pieces{",", ".", ".", ","}));
  EXPECT_EQ(cut(kMergedWithPrevious, false), (Pieces{"a,", ".", "b.", ","}));
  EXPECT_EQ(cut(kMergedWithPrevious, true), (Pieces{"a", ",", ".b", ".", ","}));
  EXPECT_EQ(cut(kMergedWithNext, false), (Pieces{"a", ",", ".b", ".", ","}));
  EXPECT_EQ(cut(kMergedWithNext, true), (Pieces{"a,", ".", "b.", ","}));
  EXPECT_EQ(cut(kContiguous, false), (Pieces{"a", ",.", "b", ".,"}));
}

TEST(StagedSplit, EmptyMatchesSplitTheText) {
  EXPECT_EQ(pieces(make("\\p{N}+\n(?=(\\d{3})+(?!\\d))"), "a1234567 12"), (Pieces{"a", "1", "234", "567", " ", "12"}));
}

// Certain pieces stay for any further text, and a search that restarts after them finds the same.
void expect_certainty(const StagedSplit& split, const std::string& name, size_t least_certain) {
  std::mt19937_64 random(test_seed());
  size_t n_certain = 0;
  for (int i = 0; i < 3'000; ++i) {
    const std::string text = random_text(random, i % 4 == 0), more = random_text(random, i % 4 == 0);
    const Pieces longer = pieces(split, text + more);
    ScanMemory memory;
    size_t n = 0;
    for (size_t pos = 0; pos < text.size();) {
      const Piece piece = split.scan(text, pos, memory);
      ASSERT_GT(piece.end, pos);
      if (piece.touched_end) break;
      if (!piece.dropped) {
        ASSERT_LT(n, longer.size()) << name << testing::PrintToString(text + more);
        ASSERT_EQ(text.substr(pos, piece.end - pos), longer[n++]) << name << testing::PrintToString(text + more);
      }
      pos = piece.end;
      ++n_certain;
      if (!piece.may_resume) continue;
      ASSERT_EQ(pieces(split, (text + more).substr(pos)),
                Pieces(longer.begin() + static_cast<ptrdiff_t>(n), longer.end()))
          << name << testing::PrintToString(text + more) << " from " << pos;
    }
  }
  EXPECT_GT(n_certain, least_certain) << name;
}

TEST(StagedSplit, PiecesFoundWithoutReadingTheEndAreFinal) {
  for (const char* name : kSplitNames) {
    const PretokenizerFamily* family = find_pretokenizer_by_gguf_name(name);
    ASSERT_NE(family, nullptr) << name;
    ASSERT_EQ(family->scan, nullptr) << name;
    expect_certainty(make(family->signature), name, 500);
  }
}

TEST(StagedSplit, PiecesFoundWithoutReadingTheEndAreFinalForEveryBehavior) {
  using enum SplitBehavior;
  for (const SplitBehavior behavior : {kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous}) {
    for (const bool invert : {false, true}) {
      const std::string name = std::to_string(static_cast<int>(behavior)) + (invert ? " inverted" : "");
      expect_certainty(make({{{"\\s+|[,.!?]", behavior, invert}}}), name, 500);
      expect_certainty(make({{{"\\p{N}", behavior, invert}, {"\\p{Lu}?\\p{Ll}+", behavior, !invert}}}), name, 500);
      expect_certainty(make({{{"(?=\\d)|\\b", behavior, invert}, {"a|e"}}}), name, 500);
    }
  }
}

TEST(StagedSplit, UnsupportedPatternIsReported) {
  const Result<StagedSplit> split = StagedSplit::create(split_steps("Digits:individual\n(?<=a)b"));
  ASSERT_FALSE(split.ok());
  EXPECT_EQ(split.status().code(), ErrorCode::kUnsupported);
  EXPECT_NE(split.status().message().find("(?<=a)b"), std::string::npos);
}

}  // namespace
}  // namespace ibid
