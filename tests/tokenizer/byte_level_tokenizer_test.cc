#include "tokenizer/pipeline_tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/paths.h"
#include "tests/tokenizer/golden_tokenizers.h"
#include "weights/model_file.h"

namespace ibid {
namespace {

class ByteLevelFamilies : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, ByteLevelFamilies, testing::ValuesIn(kGoldenFamilies));
INSTANTIATE_TEST_SUITE_P(Staged, ByteLevelFamilies, testing::ValuesIn(kStagedFamilies));

TEST_P(ByteLevelFamilies, TokenizerEqualsTheReferenceOnGoldenCases) {
  expect_cases(*load_golden_tokenizer(GetParam()),
               read_tokenizer_cases(golden_dir() + "/tokenizer/" + GetParam() + ".jsonl"));
}

TEST_P(ByteLevelFamilies, LongRunsOfOneCharacterAreEncoded) {
  const auto tokenizer = load_golden_tokenizer(GetParam());
  for (const char* unit : {"a", " ", "\n", "=", "1", "<", "'", "\u0301", "\u4E00", "\U0001F600", "\x80", "a "}) {
    std::string text;
    while (text.size() < 200'000) text += unit;
    const Tokens ids = tokenizer->encode(text, TextOrigin::kInput);
    // These families normalize the text, drop parts of it or lack bytes.
    constexpr std::string_view kChange[] = {"qwen2", "qwen35", "smollm", "behaviors", "words_alone", "prefix_accents"};
    if (std::find(std::begin(kChange), std::end(kChange), GetParam()) != std::end(kChange)) continue;
    EXPECT_EQ(tokenizer->decode(ids), text) << testing::PrintToString(unit);
  }
}

TEST_P(ByteLevelFamilies, EveryByteStringHasAnEncoding) {
  const auto tokenizer = load_golden_tokenizer(GetParam());
  std::mt19937_64 random(test_seed());
  const bool exact = std::string_view(GetParam()) == "gpt2";
  for (int i = 0; i < 3'000; ++i) {
    std::string text;
    for (uint64_t n = random() % 40; n > 0; --n) text += static_cast<char>(random() % 256);
    const Tokens ids = tokenizer->encode(text, TextOrigin::kInput);
    for (const TokenId id : ids) ASSERT_LT(static_cast<size_t>(id), tokenizer->vocab_size());
    if (exact) {
      ASSERT_EQ(tokenizer->decode(ids), text) << testing::PrintToString(text);
    }
  }
}

TEST(ByteLevelTokenizer, SpecialTokensAreRecognisedOnlyInTemplateText) {
  const auto tokenizer = load_golden_tokenizer("gpt2");
  const TokenId end = *tokenizer->find_token("<|im_end|>"), think = *tokenizer->find_token("<think>");
  EXPECT_EQ(tokenizer->encode("<|im_end|>", TextOrigin::kTemplate), (Tokens{end}));
  const Tokens ordinary = tokenizer->encode("<|im_end|>", TextOrigin::kInput);
  EXPECT_EQ(std::count(ordinary.begin(), ordinary.end(), end), 0);
  EXPECT_EQ(tokenizer->decode(ordinary), "<|im_end|>");
  EXPECT_EQ(tokenizer->encode("<think>", TextOrigin::kInput), (Tokens{think}));  // the token is not special
  EXPECT_TRUE(tokenizer->is_special(end));
  EXPECT_FALSE(tokenizer->is_special(think));
  EXPECT_FALSE(tokenizer->is_special(-1));
  EXPECT_FALSE(tokenizer->is_special(1'000'000));
}

TEST(ByteLevelTokenizer, DisabledSpecialTokenPreventsOverlappingMatches) {
  const auto tokenizer = load_golden_tokenizer("gpt2");
  const TokenId inner = *tokenizer->find_token("|><|");
  const Tokens hidden = tokenizer->encode("<|im_end|><|x|>", TextOrigin::kInput);
  EXPECT_EQ(std::count(hidden.begin(), hidden.end(), inner), 0);
  const Tokens shown = tokenizer->encode("<|im_en|><|x|>", TextOrigin::kInput);
  EXPECT_EQ(std::count(shown.begin(), shown.end(), inner), 1);
}

TEST(ByteLevelTokenizer, TextOfMixedOriginIsEncodedAsOneText) {
  const auto tokenizer = load_golden_tokenizer("gpt2");
  MarkedText text("he", TextOrigin::kTemplate);
  text.append("llo", TextOrigin::kInput);
  EXPECT_EQ(tokenizer->encode_marked(text), tokenizer->encode("hello", TextOrigin::kTemplate));
}

TEST(ByteLevelTokenizer, FindsTokensByTextAndReturnsTheirBytes) {
  const auto tokenizer = load_golden_tokenizer("llama3");
  EXPECT_EQ(tokenizer->token_bytes(*tokenizer->find_token("\n")), "\n");
  EXPECT_EQ(tokenizer->token_bytes(*tokenizer->find_token("<|im_end|>")), "<|im_end|>");
  EXPECT_EQ(tokenizer->find_token("no such token"), std::nullopt);
  EXPECT_EQ(tokenizer->token_bytes(-1), "");
  EXPECT_EQ(tokenizer->token_bytes(static_cast<TokenId>(tokenizer->vocab_size())), "");
}

// Encoding only writes to the cache of reachable tokens, which is atomic.
TEST(ByteLevelTokenizer, ThreadsCanShareATokenizer) {
  const auto tokenizer = load_golden_tokenizer("o200k");
  const auto cases = read_tokenizer_cases(golden_dir() + "/tokenizer/o200k.jsonl");
  std::vector<std::thread> threads;
  std::vector<size_t> n_wrong(4);
  for (size_t& wrong : n_wrong) {
    threads.emplace_back([&] {
      for (const auto& one : cases)
        wrong += tokenizer->encode(one.text, one.origin, one.add_special) != one.ids ? 1u : 0u;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_wrong, std::vector<size_t>(4));
}

TEST(RealModelTokenizer, TokenizerFromGgufEqualsTheReference) {
  IBID_NEED_REAL_MODEL(path);
  IBID_NEED_SHARED(shared);
  const auto file = open_model_file(path, {.vocabulary_only = true});
  ASSERT_TRUE(file.ok()) << file.status().message();
  const auto tokenizer = load_tokenizer(**file);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  expect_cases(**tokenizer, read_tokenizer_cases(shared + "/reference/tokenizer/smollm2.jsonl"));
}

TEST(RealModelTokenizer, SpecialTokensAreReadFromGguf) {
  IBID_NEED_REAL_MODEL(path);
  const auto file = open_model_file(path, {.vocabulary_only = true});
  ASSERT_TRUE(file.ok()) << file.status().message();
  const auto loaded = load_tokenizer(**file);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  const Tokenizer& tokenizer = **loaded;
  EXPECT_EQ(tokenizer.vocab_size(), 49152u);
  EXPECT_EQ(tokenizer.bos(), tokenizer.find_token("<|im_start|>"));
  EXPECT_EQ(tokenizer.eos(), tokenizer.find_token("<|im_end|>"));
  EXPECT_EQ(tokenizer.end_of_turn(), (std::vector<TokenId>{2, 0}));
  EXPECT_EQ(tokenizer.encode("Hello", TextOrigin::kInput, true), tokenizer.encode("Hello", TextOrigin::kInput));
  // The vocabulary has no token for 21 of the 256 bytes; they are dropped.
  size_t n_missing = 0;
  for (int b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    n_missing += tokenizer.encode({&byte, 1}, TextOrigin::kInput).empty() ? 1u : 0u;
  }
  EXPECT_EQ(n_missing, 21u);
}

}  // namespace
}  // namespace ibid
