#include "tokenizer/staged_split.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/tokenizer/golden_tokenizers.h"

namespace ibid {
namespace {

constexpr const char* kNames[] = {"falcon",    "default",    "deepseek-coder", "deepseek-llm", "jais-2",
                                  "youtu",     "bloom",      "viking",         "chameleon",    "kimi-k2",
                                  "bailingmoe", "seed-coder", "minicpm5",       "laguna",       "exaone-moe"};

std::vector<std::string> pieces(const StagedSplit& split, std::string_view text) {
  std::vector<std::string> out;
  ScanMemory memory;
  for (size_t pos = 0; pos < text.size();) {
    const Piece piece = split.scan(text, pos, memory);
    out.emplace_back(text.substr(pos, piece.end - pos));
    pos = piece.end;
  }
  return out;
}

TEST(StagedSplit, LaterStepsCutInsideOfEarlierPieces) {
  using Pieces = std::vector<std::string>;
  EXPECT_EQ(pieces(StagedSplit("Punctuation:contiguous\nByteLevel\nDigits:contiguous\n[0-9][0-9][0-9]"), "a 12345?! b"),
            (Pieces{"a", " ", "123", "45", "?!", " b"}));
  EXPECT_EQ(pieces(StagedSplit("Digits:individual\n\\p{L}+"), "ab12!c"), (Pieces{"ab", "1", "2", "!", "c"}));
  EXPECT_EQ(pieces(StagedSplit("Punctuation:isolated"), "a!?b"), (Pieces{"a", "!", "?", "b"}));
}

// Every name that has no scanner of its own: what is said to be certain stays however the text goes on, and a search
// that begins anew behind it finds the same.
TEST(StagedSplit, WhatDidNotLookAtTheEndStays) {
  std::mt19937_64 random(test_seed());
  for (const char* name : kNames) {
    const PretokenizerFamily* family = find_pretokenizer_by_gguf_name(name);
    ASSERT_NE(family, nullptr) << name;
    ASSERT_EQ(family->scan, nullptr) << name;
    ASSERT_TRUE(is_known_split(family->signature)) << name;
    const StagedSplit split(family->signature);
    size_t n_certain = 0;
    for (int i = 0; i < 3'000; ++i) {
      const std::string text = random_text(random, i % 4 == 0), more = random_text(random, i % 4 == 0);
      const std::vector<std::string> longer = pieces(split, text + more);
      ScanMemory memory;
      size_t n = 0;
      for (size_t pos = 0; pos < text.size();) {
        const Piece piece = split.scan(text, pos, memory);
        ASSERT_GT(piece.end, pos);
        if (piece.touched_end) break;
        ASSERT_EQ(text.substr(pos, piece.end - pos), longer[n++]) << name << testing::PrintToString(text + more);
        pos = piece.end;
        ++n_certain;
        if (!piece.may_resume) continue;
        ASSERT_EQ(pieces(split, (text + more).substr(pos)), std::vector<std::string>(longer.begin() + n, longer.end()))
            << name << testing::PrintToString(text + more) << " from " << pos;
      }
    }
    EXPECT_GT(n_certain, 1'000u) << name;
  }
}

TEST(StagedSplit, KnowsWhichStepsItHolds) {
  EXPECT_TRUE(is_known_split("Digits:individual\n\\p{N}{1,3}\nPunctuation:isolated"));
  EXPECT_FALSE(is_known_split("Digits:individual\n[a-z]+"));
  EXPECT_FALSE(is_known_split("\\p{N}{1,3"));
}

}  // namespace
}  // namespace ibid
