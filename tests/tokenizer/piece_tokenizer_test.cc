#include "tokenizer/pipeline_tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "base/json_limits.h"
#include "base/utf8.h"
#include "tests/support/paths.h"
#include "tests/support/temp_dir.h"
#include "tests/tokenizer/golden_tokenizers.h"
#include "tests/tokenizer/memory_model_file.h"
#include "tokenizer/tokenizer.h"

namespace ibid {
namespace {

class PieceFamilies : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, PieceFamilies, testing::ValuesIn(kPieceFamilies));

TEST_P(PieceFamilies, TokenizerEqualsTheReferenceOnGoldenCases) {
  expect_cases(*load_golden_tokenizer(GetParam()),
               read_tokenizer_cases(golden_dir() + "/tokenizer/" + GetParam() + ".jsonl"));
}

TEST_P(PieceFamilies, LongRunsOfOneCharacterAreEncoded) {
  const auto tokenizer = load_golden_tokenizer(GetParam());
  for (const char* unit : {"a", " ", "\n", "=", "1", "\u2581", "\u0301", "\u4E00", "\U0001F600", "\x80", "\uFB01"}) {
    std::string text;
    while (text.size() < 200'000) text += unit;
    const Tokens ids = tokenizer->encode(text, TextOrigin::kInput);
    for (const TokenId id : ids) ASSERT_LT(static_cast<size_t>(id), tokenizer->vocab_size());
  }
}

// A token-by-token stream gives the text that decode() gives for all tokens that are not special.
TEST_P(PieceFamilies, StreamDecoderMatchesDecode) {
  const auto tokenizer = load_golden_tokenizer(GetParam());
  std::mt19937_64 random(test_seed());
  for (int i = 0; i < 2'000; ++i) {
    const Tokens ids = tokenizer->encode(random_text(random, i % 2 == 0), TextOrigin::kTemplate);
    StreamDecoder decoder(*tokenizer);
    std::string streamed;
    Tokens shown;
    for (const TokenId id : ids) {
      const std::string piece = decoder.push(id);
      ASSERT_TRUE(utf8_is_valid(piece));
      streamed += piece;
      if (!tokenizer->is_special(id)) shown.push_back(id);
    }
    streamed += decoder.finish();
    ASSERT_EQ(streamed, utf8_sanitize(tokenizer->decode(shown)));
  }
}

TEST(PieceTokenizer, ByteStringsRoundTripIfAllBytesHaveTokens) {
  const auto tokenizer = load_golden_tokenizer("gemma");
  std::mt19937_64 random(test_seed());
  for (int i = 0; i < 3'000; ++i) {
    std::string text;
    for (uint64_t n = random() % 40; n > 0; --n) text += static_cast<char>(random() % 256);
    ASSERT_EQ(tokenizer->decode(tokenizer->encode(text, TextOrigin::kInput)), text) << testing::PrintToString(text);
  }
}

TEST(PieceTokenizer, SpecialTokensAreRecognisedOnlyInTemplateText) {
  const auto tokenizer = load_golden_tokenizer("llama2");
  const TokenId end = *tokenizer->find_token("<|im_end|>");
  EXPECT_EQ(tokenizer->encode("<|im_end|>", TextOrigin::kTemplate), (Tokens{end}));
  const Tokens ordinary = tokenizer->encode("<|im_end|>", TextOrigin::kInput);
  EXPECT_EQ(std::count(ordinary.begin(), ordinary.end(), end), 0);
  EXPECT_EQ(tokenizer->decode(ordinary), "<|im_end|>");
}

// The normalizer of Llama 2 adds a space mark before every section; Metaspace's "first" only before the whole text.
// Parts of one section are one text, whatever their origins.
TEST(PieceTokenizer, TokenizerFileDecidesWhereASpaceIsAdded) {
  MarkedText text("hello", TextOrigin::kInput);
  text.append("<|im_end|>the", TextOrigin::kTemplate);
  text.append(" the", TextOrigin::kInput);
  const auto shown = [&](const char* family) {
    const auto tokenizer = load_golden_tokenizer(family);
    std::string out;
    for (const TokenId id : tokenizer->encode_marked(text)) out += tokenizer->token_bytes(id);
    return out;
  };
  EXPECT_EQ(shown("llama2"), " hello<|im_end|> the the");
  EXPECT_EQ(shown("metaspace_first"), " hello<|im_end|>the the");
  EXPECT_EQ(shown("gemma"), "hello<|im_end|>the the");
}

TEST(PieceTokenizer, FirstDecodedTokenDropsTheAddedSpace) {
  const auto tokenizer = load_golden_tokenizer("llama2");
  const TokenId the = *tokenizer->find_token("\u2581the"), end = *tokenizer->find_token("<|im_end|>");
  EXPECT_EQ(tokenizer->decode(Tokens{the, the}), "the the");
  EXPECT_EQ(tokenizer->decode(Tokens{end, the}), "<|im_end|> the");
  StreamDecoder decoder(*tokenizer);
  EXPECT_EQ(decoder.push(end), "");
  EXPECT_EQ(decoder.push(the), "the");
  EXPECT_EQ(decoder.push(the), " the");
}

// The unknown token's own text becomes it, and joins adjacent unknown characters.
TEST(PieceTokenizer, TextOfTheUnknownTokenEncodesToTheUnknownToken) {
  const Result<Json> read = parse_json(read_whole_file(golden_dir() + "/tokenizer/unigram.json"), "unigram.json");
  ASSERT_TRUE(read.ok());
  Json json = *read;
  json["normalizer"] = nullptr;
  json["pre_tokenizer"]["split"] = false;
  const auto tokenizer = load_tokenizer(MemoryModelFile({{"tokenizer.json", json_to_string(json)}}));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  const TokenId mark = *(*tokenizer)->find_token("\u2581"), unknown = *(*tokenizer)->find_token("<unk>");
  EXPECT_EQ((*tokenizer)->encode(" <unk>\u230B", TextOrigin::kInput), (Tokens{mark, unknown}));
  EXPECT_EQ((*tokenizer)->encode(" \u230B<unk>", TextOrigin::kInput), (Tokens{mark, unknown}));
}

TEST(PieceTokenizer, ByteTokenDecodesToItsByte) {
  const auto tokenizer = load_golden_tokenizer("gemma");
  StreamDecoder decoder(*tokenizer);
  EXPECT_EQ(decoder.push(*tokenizer->find_token("<0xC3>")), "");
  EXPECT_TRUE(decoder.is_open());
  EXPECT_EQ(decoder.push(*tokenizer->find_token("<0xA9>")), "\u00E9");
}

// Repeated encoding does not grow with the text: every space of prose is a boundary.
TEST(PieceTokenizer, WorkOfAnAppendDoesNotGrowWithTheHistory) {
  for (const char* family : kPieceFamilies) {
    const auto tokenizer = load_golden_tokenizer(family);
    IncrementalEncoder encoder(*tokenizer);
    size_t first = 0, most = 0;
    for (int i = 0; i < 2'000; ++i) {
      const size_t before = encoder.bytes_encoded();
      encoder.append("Und noch ein Satz mit 42 Zeichen.\n", TextOrigin::kInput);
      const size_t work = encoder.bytes_encoded() - before;
      if (i == 1) first = work;
      most = std::max(most, work);
    }
    EXPECT_EQ(most, first) << family;
  }
}

}  // namespace
}  // namespace ibid
