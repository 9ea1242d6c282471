#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "base/utf8.h"
#include "tests/tokenizer/golden_tokenizers.h"

namespace ibid {
namespace {

class StreamDecoderTest : public testing::Test {
 protected:
  Tokens bytes(std::string_view text) {
    Tokens out;
    for (const char& byte : text) out.push_back(*tokenizer_->find_token({&byte, 1}));
    return out;
  }
  std::unique_ptr<Tokenizer> tokenizer_ = load_golden_tokenizer("gpt2");
};

TEST_F(StreamDecoderTest, CharacterIsHeldBackUntilItsLastByte) {
  StreamDecoder decoder(*tokenizer_);
  const Tokens ids = bytes("a\U0001F600\u00E9");
  EXPECT_EQ(decoder.push(ids[0]), "a");
  EXPECT_EQ(decoder.push(ids[1]), "");
  EXPECT_EQ(decoder.push(ids[2]), "");
  EXPECT_EQ(decoder.push(ids[3]), "");
  EXPECT_EQ(decoder.push(ids[4]), "\U0001F600");
  EXPECT_EQ(decoder.push(ids[5]), "");
  EXPECT_EQ(decoder.push(ids[6]), "\u00E9");
  EXPECT_EQ(decoder.finish(), "");
}

TEST_F(StreamDecoderTest, BytesThatNeverBecomeACharacterAreReplacedAtOnce) {
  StreamDecoder decoder(*tokenizer_);
  EXPECT_EQ(decoder.push(bytes("\xFF")[0]), "\uFFFD");
  EXPECT_EQ(decoder.push(bytes("\xE2")[0]), "");
  EXPECT_EQ(decoder.push(bytes("b")[0]), "\uFFFDb");
}

TEST_F(StreamDecoderTest, FinishEmitsIncompleteBytesOnce) {
  StreamDecoder decoder(*tokenizer_);
  EXPECT_EQ(decoder.push(bytes("\xF0")[0]), "");
  EXPECT_EQ(decoder.push(bytes("\x9F")[0]), "");
  EXPECT_EQ(decoder.finish(), "\uFFFD");
  EXPECT_EQ(decoder.finish(), "");
}

TEST_F(StreamDecoderTest, SpecialAndUnknownTokensGiveNoText) {
  StreamDecoder decoder(*tokenizer_);
  EXPECT_EQ(decoder.push(*tokenizer_->find_token("<|im_end|>")), "");
  EXPECT_EQ(decoder.push(-1), "");
  EXPECT_EQ(decoder.push(1'000'000), "");
  EXPECT_EQ(decoder.push(*tokenizer_->find_token("<think>")), "<think>");
}

TEST_F(StreamDecoderTest, PiecesJoinToTheWholeText) {
  std::mt19937_64 random(test_seed());
  for (int i = 0; i < 2'000; ++i) {
    const Tokens ids = tokenizer_->encode(random_text(random, true), TextOrigin::kInput);
    StreamDecoder decoder(*tokenizer_);
    std::string streamed;
    for (const TokenId id : ids) {
      const std::string piece = decoder.push(id);
      ASSERT_TRUE(utf8_is_valid(piece));
      streamed += piece;
    }
    streamed += decoder.finish();
    ASSERT_EQ(streamed, utf8_sanitize(tokenizer_->decode(ids)));
  }
}

TEST_F(StreamDecoderTest, CopiesAreIndependentOfTheirOriginal) {
  StreamDecoder decoder(*tokenizer_);
  const Tokens ids = bytes("\u00E9");
  EXPECT_EQ(decoder.push(ids[0]), "");
  StreamDecoder fork = decoder;
  EXPECT_EQ(decoder.push(ids[1]), "\u00E9");
  EXPECT_EQ(fork.push(ids[1]), "\u00E9");
}

}  // namespace
}  // namespace ibid
