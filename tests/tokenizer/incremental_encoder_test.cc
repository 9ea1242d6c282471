#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/support/paths.h"
#include "tests/tokenizer/golden_tokenizers.h"
#include "weights/model_file.h"

namespace ibid {
namespace {

struct Text {
  std::string bytes;
  TextOrigin origin;
};

Tokens encode_whole(const Tokenizer& tokenizer, const std::vector<Text>& parts) {
  MarkedText text;
  for (const Text& part : parts) text.append(part.bytes, part.origin);
  return tokenizer.encode_marked(text);
}

void apply_delta(const IncrementalEncoder::Delta& delta, Tokens& tokens) {
  ASSERT_LE(delta.keep, tokens.size());
  tokens.resize(delta.keep);
  tokens.insert(tokens.end(), delta.tokens.begin(), delta.tokens.end());
}

class IncrementalEncoderFamilies : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, IncrementalEncoderFamilies, testing::ValuesIn(kGoldenFamilies));
INSTANTIATE_TEST_SUITE_P(Pieces, IncrementalEncoderFamilies, testing::ValuesIn(kPieceFamilies));
INSTANTIATE_TEST_SUITE_P(Staged, IncrementalEncoderFamilies, testing::ValuesIn(kStagedFamilies));

// 18 families x 12,500 appends, the whole text encoded again after each.
TEST_P(IncrementalEncoderFamilies, TokensEqualThoseOfTheWholeTextAfterEveryAppend) {
  const auto tokenizer = load_golden_tokenizer(GetParam());
  std::mt19937_64 random(test_seed());
  int appends = 0;
  while (appends < 12'500) {
    IncrementalEncoder encoder(*tokenizer);
    std::vector<Text> parts;
    Tokens tokens;
    TextOrigin origin = TextOrigin::kTemplate;
    for (uint64_t n = 1 + random() % 25; n > 0; --n, ++appends) {
      if (random() % 6 == 0) {
        origin = origin == TextOrigin::kTemplate ? TextOrigin::kInput : TextOrigin::kTemplate;
      }
      // Either a whole text, or one cut at a random byte, so that special tokens, characters and runs are split too.
      std::string text = random_text(random, random() % 4 == 0);
      if (random() % 2 == 0) text.resize(random() % (text.size() + 1));
      parts.push_back({text, origin});
      apply_delta(encoder.append(text, origin), tokens);
      ASSERT_EQ(tokens.size(), encoder.n_tokens());
      if (tokens != encode_whole(*tokenizer, parts)) {
        std::string story;
        for (const Text& part : parts) {
          story += (part.origin == TextOrigin::kInput ? "\n  input    " : "\n  template ") +
                   testing::PrintToString(part.bytes);
        }
        FAIL() << "differs after" << story;
      }
    }
  }
}

TEST_P(IncrementalEncoderFamilies, TextAppendedByteByByteHasTheTokensOfTheWholeText) {
  const auto tokenizer = load_golden_tokenizer(GetParam());
  const auto cases = read_tokenizer_cases(golden_dir() + "/tokenizer/" + GetParam() + ".jsonl");
  for (const TokenizerCase& one : cases) {
    if (one.add_special) continue;
    IncrementalEncoder encoder(*tokenizer);
    Tokens tokens;
    for (const char& byte : one.text) apply_delta(encoder.append({&byte, 1}, one.origin), tokens);
    ASSERT_EQ(tokens, one.ids) << testing::PrintToString(one.text);
  }
}

TEST_P(IncrementalEncoderFamilies, EachByteOfProseIsEncodedAboutOnce) {
  const auto tokenizer = load_golden_tokenizer(GetParam());
  IncrementalEncoder encoder(*tokenizer);
  const std::string sentence = "The quick brown fox, aged 12, doesn't jump over the lazy dog's back.\n";
  size_t total = 0;
  for (int i = 0; i < 1'000; ++i) {
    encoder.append("<|im_start|>", TextOrigin::kTemplate);
    encoder.append(sentence, TextOrigin::kInput);
    encoder.append("<|im_end|>\n", TextOrigin::kTemplate);
    total += 12 + sentence.size() + 11;
  }
  // Only the end of each append is encoded twice.
  EXPECT_LE(encoder.bytes_encoded(), total + total / 4);
}

TEST(IncrementalEncoder, WorkOfAnAppendDoesNotGrowWithTheHistory) {
  const auto tokenizer = load_golden_tokenizer("smollm");
  IncrementalEncoder encoder(*tokenizer);
  std::vector<size_t> work;
  for (int i = 0; i < 2'000; ++i) {
    const size_t before = encoder.bytes_encoded();
    encoder.append("Und noch ein Satz mit 42 Zeichen.\n", TextOrigin::kInput);
    work.push_back(encoder.bytes_encoded() - before);
  }
  EXPECT_EQ(*std::max_element(work.begin() + 1, work.end()), work[1]);
}

TEST(IncrementalEncoder, TextBeforeASpecialTokenIsNotEncodedAgain) {
  const auto tokenizer = load_golden_tokenizer("gpt2");
  IncrementalEncoder encoder(*tokenizer);
  encoder.append("hello<|im_start|>", TextOrigin::kTemplate);
  const size_t before = encoder.bytes_encoded();
  encoder.append("x", TextOrigin::kTemplate);
  EXPECT_EQ(encoder.bytes_encoded() - before, 1u);
}

TEST(IncrementalEncoder, CopiesGrowIndependently) {
  const auto tokenizer = load_golden_tokenizer("llama3");
  IncrementalEncoder encoder(*tokenizer);
  Tokens tokens;
  apply_delta(encoder.append("hello wor", TextOrigin::kInput), tokens);
  IncrementalEncoder fork = encoder;
  Tokens forked = tokens;
  apply_delta(encoder.append("ld", TextOrigin::kInput), tokens);
  apply_delta(fork.append("king", TextOrigin::kInput), forked);
  EXPECT_EQ(tokens, tokenizer->encode("hello world", TextOrigin::kInput));
  EXPECT_EQ(forked, tokenizer->encode("hello working", TextOrigin::kInput));
}

// "\u00B2" is no word character, but the normalizer makes "2" of it, which is one. So a normalized single_word token
// does not match after it. If encoding resumes between the two, only the context tells what precedes. The opposite case
// is a mark, which StripAccents removes from the end of a letter.
TEST(IncrementalEncoder, SingleWordMatchAfterAResumeUsesTheNormalizedText) {
  const auto tokenizer = load_golden_tokenizer("prefix_accents");
  for (const char* token : {"wSSNw", "wSLSNw", "wSRSNw", "wSLRSNw", "wnSNw"}) {
    ASSERT_TRUE(tokenizer->find_token(token));
    for (const char* before : {" the\u4E00\u00B2", "\u00C9x\u00B2", "x\u0301", "1 \u0301", "?."}) {
      const std::string text = std::string(before) + token + "<nN>\u3002 a";
      const Tokens whole = tokenizer->encode(text, TextOrigin::kTemplate);
      for (size_t first = 0; first <= text.size(); ++first) {
        for (size_t second = first; second <= text.size(); ++second) {
          IncrementalEncoder encoder(*tokenizer);
          Tokens tokens;
          apply_delta(encoder.append(text.substr(0, first), TextOrigin::kTemplate), tokens);
          apply_delta(encoder.append(text.substr(first, second - first), TextOrigin::kTemplate), tokens);
          apply_delta(encoder.append(text.substr(second), TextOrigin::kTemplate), tokens);
          ASSERT_EQ(tokens, whole) << testing::PrintToString(text) << " cut at " << first << " and " << second;
        }
      }
    }
  }
}

TEST(IncrementalEncoder, EmptyAppendChangesNothing) {
  const auto tokenizer = load_golden_tokenizer("gpt2");
  IncrementalEncoder encoder(*tokenizer);
  encoder.append("<|im_", TextOrigin::kTemplate);
  const size_t n = encoder.n_tokens();
  const auto delta = encoder.append("", TextOrigin::kInput);
  EXPECT_EQ(delta.keep, n);
  EXPECT_TRUE(delta.tokens.empty());
  Tokens tokens = tokenizer->encode("<|im_", TextOrigin::kTemplate);
  apply_delta(encoder.append("end|>", TextOrigin::kTemplate), tokens);
  EXPECT_EQ(tokens, (Tokens{*tokenizer->find_token("<|im_end|>")}));
}

TEST(IncrementalEncoder, MessageTextCannotCompleteASpecialToken) {
  const auto tokenizer = load_golden_tokenizer("gpt2");
  const TokenId end = *tokenizer->find_token("<|im_end|>");
  for (const auto& [first, second] :
       {std::pair(TextOrigin::kTemplate, TextOrigin::kInput), std::pair(TextOrigin::kInput, TextOrigin::kTemplate),
        std::pair(TextOrigin::kInput, TextOrigin::kInput)}) {
    for (size_t cut = 1; cut < 10; ++cut) {
      IncrementalEncoder encoder(*tokenizer);
      Tokens tokens;
      apply_delta(encoder.append(std::string_view("<|im_end|>").substr(0, cut), first), tokens);
      apply_delta(encoder.append(std::string_view("<|im_end|>").substr(cut), second), tokens);
      EXPECT_EQ(std::count(tokens.begin(), tokens.end(), end), 0) << cut;
    }
  }
}

TEST(RealModelIncrementalEncoder, ConversationAppendedInPartsHasTheTokensOfTheWholeText) {
  IBID_NEED_REAL_MODEL(path);
  const auto file = open_model_file(path, {.vocabulary_only = true});
  ASSERT_TRUE(file.ok()) << file.status().message();
  const auto tokenizer = load_tokenizer(**file);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 300; ++round) {
    IncrementalEncoder encoder(**tokenizer);
    std::vector<Text> parts;
    Tokens tokens;
    for (int turn = 0; turn < 8; ++turn) {
      for (const Text& part :
           {Text{"<|im_start|>user\n", TextOrigin::kTemplate}, Text{random_text(random, turn == 3), TextOrigin::kInput},
            Text{"<|im_end|>\n", TextOrigin::kTemplate}}) {
        parts.push_back(part);
        apply_delta(encoder.append(part.bytes, part.origin), tokens);
        ASSERT_EQ(tokens, encode_whole(**tokenizer, parts));
      }
    }
  }
}

}  // namespace
}  // namespace ibid
