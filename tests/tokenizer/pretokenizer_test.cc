#include "tokenizer/splitting/pretokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/tokenizer/golden_tokenizers.h"

namespace ibid {
namespace {

using testing::ElementsAre;

constexpr const char* kNames[] = {"gpt-2", "smollm", "llama-bpe", "qwen2", "qwen35", "gpt-4o", "tekken", "deepseek-v3"};

std::vector<std::string> split(const char* gguf_name, std::string_view text) {
  const PretokenizerFamily* family = find_pretokenizer_by_gguf_name(gguf_name);
  std::vector<std::string> out;
  for (size_t pos = 0; pos < text.size();) {
    const Piece piece = family->scan(text, pos);
    out.emplace_back(text.substr(pos, piece.end - pos));
    pos = piece.end;
  }
  return out;
}

TEST(Pretokenizer, Gpt2SplitsWordsAndContractions) {
  EXPECT_THAT(split("gpt-2", "Hello, it's  me\n\n 42"),
              ElementsAre("Hello", ",", " it", "'s", " ", " me", "\n\n", " 42"));
  EXPECT_THAT(split("gpt-2", "'LL 'x  "), ElementsAre("'", "LL", " '", "x", "  "));
}

TEST(Pretokenizer, SmollmSplitsDigitsFirst) {
  EXPECT_THAT(split("smollm", "a  12 3"), ElementsAre("a", "  ", "1", "2", " ", "3"));
  EXPECT_THAT(split("smollm", "x\u0663\u00B2y"), ElementsAre("x", "\u0663", "\u00B2", "y"));
}

TEST(Pretokenizer, Llama3SplitsNumbersIntoThreeDigits) {
  EXPECT_THAT(split("llama-bpe", "I'M  12345\t(x)\n\n  y"),
              ElementsAre("I", "'M", " ", " ", "123", "45", "\t", "(x", ")\n\n", " ", " y"));
  EXPECT_THAT(split("llama-bpe", "x'\u017Fy"), ElementsAre("x", "'\u017F", "y"));
}

TEST(Pretokenizer, Qwen2AndQwen35SplitCombiningMarksDifferently) {
  EXPECT_THAT(split("qwen2", "ab\u0301c 12"), ElementsAre("ab", "\u0301c", " ", "1", "2"));
  EXPECT_THAT(split("qwen35", "ab\u0301c 12"), ElementsAre("ab\u0301c", " ", "1", "2"));
}

TEST(Pretokenizer, O200kSplitsByCaseAndKeepsContractions) {
  EXPECT_THAT(split("gpt-4o", "HTTPServer camelCase don't 1234 a/b//\n"),
              ElementsAre("HTTPServer", " camel", "Case", " don't", " ", "123", "4", " a", "/b", "//\n"));
  EXPECT_THAT(split("tekken", "don't \u041F\u0440\u0438\u0432\u0435\u0442\u041C\u0438\u0440 12"),
              ElementsAre("don", "'t", " \u041F\u0440\u0438\u0432\u0435\u0442", "\u041C\u0438\u0440", " ", "1", "2"));
  EXPECT_THAT(split("tekken", "\u00AAAB"), ElementsAre("\u00AA", "AB"));
}

TEST(Pretokenizer, DeepseekSplitsNumbersAndCjkFirst) {
  EXPECT_THAT(split("deepseek-v3", "x1234\u4E00\u30FB\u3042 #tag \u0001\u0002a"),
              ElementsAre("x", "123", "4", "\u4E00", "\u30FB", "\u3042", " #", "tag", " ", "\u0001", "\u0002a"));
}

TEST(Pretokenizer, UnknownNamesAreNotFound) {
  EXPECT_EQ(find_pretokenizer_by_gguf_name("smol"), nullptr);
  EXPECT_EQ(find_pretokenizer_by_gguf_name(""), nullptr);
  EXPECT_EQ(find_pretokenizer_by_gguf_name("smollm starcoder"), nullptr);
  EXPECT_EQ(find_pretokenizer_by_signature(""), nullptr);
  EXPECT_EQ(find_pretokenizer_by_signature("\\p{L}+"), nullptr);
}

// The property on which incremental encoding is based.
TEST(Pretokenizer, AppendedTextDoesNotChangePiecesFoundWithoutReadingTheEnd) {
  std::mt19937_64 random(test_seed());
  for (const char* name : kNames) {
    const ScanFunction scan = find_pretokenizer_by_gguf_name(name)->scan;
    size_t n_final = 0;
    for (int i = 0; i < 20'000; ++i) {
      const std::string text = random_text(random, i % 2 == 0);
      const std::string longer = text + random_text(random, i % 2 == 0);
      for (size_t pos = 0; pos < text.size();) {
        const Piece piece = scan(text, pos);
        ASSERT_GT(piece.end, pos);
        ASSERT_LE(piece.end, text.size());
        if (piece.touched_end) break;
        ++n_final;
        const Piece again = scan(longer, pos);
        ASSERT_EQ(again.end, piece.end) << name << " at " << pos << " of " << testing::PrintToString(longer);
        ASSERT_FALSE(again.touched_end) << name << " at " << pos << " of " << testing::PrintToString(longer);
        pos = piece.end;
      }
    }
    EXPECT_GT(n_final, 40'000u) << name << ": the rule must not hold only because everything is open";
  }
}

}  // namespace
}  // namespace ibid
