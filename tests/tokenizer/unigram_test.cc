#include "tokenizer/models/unigram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "base/utf8.h"
#include "tests/reference/unigram_ref.h"
#include "tests/tokenizer/golden_tokenizers.h"

namespace ibid {
namespace {

// The same random vocabulary over few characters, in two forms. Scores are multiples of 1/8, so that sums are exact in
// any order and many splits have equal sums.
struct Pair {
  UnigramModel model;
  UnigramRef ref;
};

Pair random_pair(std::mt19937_64& random, bool bytes) {
  static const std::vector<std::string> kCharacters = {"a", "b", "c", "\u2581", "\u00E9", "\u4E00", "\U0001F600", "x"};
  std::vector<std::string> texts = {"<unk>"};
  for (size_t n = 1 + random() % 60; n > 0; --n) {
    std::string text;
    for (size_t m = 1 + random() % 5; m > 0; --m) text += kCharacters[random() % (kCharacters.size() - 1)];
    if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(text);
  }
  const size_t n_texts = texts.size();
  Pair out{UnigramModel(n_texts + (bytes ? 256 : 0)), {}};
  out.ref.unknown = out.model.unknown = 0;
  out.model.byte_fallback = bytes;
  double least = 0;
  for (size_t i = 0; i < n_texts; ++i) {
    const auto id = static_cast<TokenId>(i);
    out.model.written.set_bytes(id, texts[i]);
    out.model.written.index(id);
    out.model.scores[i] = i == 0 ? 0 : -static_cast<double>(random() % 64) / 8;
    out.model.is_piece[i] = true;
    least = std::min(least, out.model.scores[i]);
    out.ref.pieces.emplace(texts[i], id);
  }
  for (size_t byte = 0; bytes && byte < 256; ++byte) {
    out.model.byte_ids[byte] = static_cast<TokenId>(n_texts + byte);
    out.ref.byte_ids.push_back(static_cast<TokenId>(n_texts + byte));
  }
  out.ref.scores = out.model.scores;
  out.ref.unknown_score = least - 10;
  return out;
}

std::string text_over(std::mt19937_64& random, size_t most) {
  static const std::vector<std::string> kParts = {"a",      "b",          "c",     "ab", "\u2581", "\u00E9",
                                                  "\u4E00", "\U0001F600", "<unk>", "x",  "y",      "\xC3"};
  std::string text;
  for (size_t n = 1 + random() % most; n > 0; --n) text += kParts[random() % kParts.size()];
  return text;
}

TEST(Unigram, UnigramTokensEqualThoseOfItsDefinition) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 300; ++round) {
    Pair pair = random_pair(random, round % 3 == 0);
    const Unigram unigram(std::move(pair.model));
    for (int i = 0; i < 40; ++i) {
      const std::string text = text_over(random, i % 8 == 0 ? 200 : 12);
      Tokens ids;
      unigram.encode(text, ids);
      ASSERT_EQ(ids, pair.ref.encode(text)) << testing::PrintToString(text);
    }
  }
}

// If scan() ends a stretch at a position, the two parts may be encoded separately.
TEST(Unigram, PartsOfATextEncodeToTheTokensOfTheWholeText) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 300; ++round) {
    const Unigram unigram(std::move(random_pair(random, round % 3 == 0).model));
    for (int i = 0; i < 40; ++i) {
      const std::string text = text_over(random, 30);
      Tokens whole, parts;
      unigram.encode(text, whole);
      for (size_t pos = 0; pos < text.size();) {
        const size_t end = unigram.scan(text, pos).end;
        unigram.encode_part(std::string_view(text).substr(pos, end - pos), parts);
        pos = end;
      }
      ASSERT_EQ(parts, whole) << testing::PrintToString(text);
    }
  }
}

}  // namespace
}  // namespace ibid
