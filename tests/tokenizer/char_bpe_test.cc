#include "tokenizer/models/bpe.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "tests/tokenizer/golden_tokenizers.h"

namespace ibid {
namespace {

struct RandomModel {
  CharBpeModel model{500};

  RandomModel(std::mt19937_64& random, const std::vector<std::string>& alphabet, bool bytes, bool byte_merges) {
    TokenId next = 0;
    const auto add = [&](const std::string& text) {
      model.written.set_bytes(next, text);
      model.written.index(next);
      return next++;
    };
    model.unknown = add("<unk>");
    std::vector<TokenId> parts;
    for (const std::string& character : alphabet) {
      if (random() % 5 != 0) parts.push_back(add(character));
    }
    if (bytes) {
      model.byte_fallback = true;
      for (size_t b = 0; b < 256; ++b) model.byte_ids[b] = add("<" + std::to_string(b) + ">");
      if (byte_merges) parts.push_back(model.byte_ids[0xC3]);
    }
    for (int tries = 0; tries < 60 && next < 500 && !parts.empty(); ++tries) {
      const TokenId left = parts[random() % parts.size()], right = parts[random() % parts.size()];
      const std::string joined = std::string(model.written.bytes(left)) + std::string(model.written.bytes(right));
      TokenId result = model.written.find(joined);
      if (result == kNoToken) parts.push_back(result = add(joined));
      const auto rank = static_cast<uint32_t>(random() % 3 == 0 ? model.merges.size() / 2 : model.merges.size());
      model.merges.push_back({left, right, result, rank});
    }
    model.fuse_unknown = random() % 2 == 0;
  }
};

// The law of boundaries: if a text is split at boundaries, the tokens of the parts are those of the whole text. The
// same holds for every prefix that ends at a boundary that no further text can move.
TEST(CharBpe, SplittingATextAtBoundariesKeepsItsTokens) {
  const std::vector<std::string> alphabet = {"a", "b", "c", "\u2581", "\u00E9", "\u4E00", "\xC3", "\n"};
  std::mt19937_64 random(test_seed());
  size_t n_borders = 0;
  for (int round = 0; round < 60; ++round) {
    RandomModel r(random, alphabet, round % 3 != 0, round % 3 == 1);
    const CharBpe bpe(std::move(r.model));
    for (int i = 0; i < 60; ++i) {
      std::string text;
      for (uint64_t n = 1 + random() % 60; n > 0; --n) text += alphabet[random() % alphabet.size()];
      Tokens cut, whole, stretches;
      bpe.encode(text, cut);
      bpe.encode_part(text, whole);
      ASSERT_EQ(cut, whole) << testing::PrintToString(text);
      for (size_t pos = 0; pos < text.size();) {
        const Piece piece = bpe.scan(text, pos);
        ASSERT_GT(piece.end, pos);
        if (piece.end < text.size() && !piece.touched_end) {
          ++n_borders;
          const Piece longer = bpe.scan(text + alphabet[random() % alphabet.size()], pos);
          ASSERT_EQ(longer.end, piece.end) << testing::PrintToString(text);
        }
        pos = piece.end;
      }
    }
  }
  EXPECT_GT(n_borders, 10'000u);
}

TEST(CharBpe, EqualRanksMergeFromTheLeft) {
  CharBpeModel model(5);
  const char* texts[] = {"a", "b", "c", "ab", "bc"};
  for (TokenId id = 0; id < 5; ++id) {
    model.written.set_bytes(id, texts[id]);
    model.written.index(id);
  }
  model.merges = {{1, 2, 4, 7}, {0, 1, 3, 7}};
  const CharBpe bpe(std::move(model));
  Tokens out;
  bpe.encode("abc", out);
  EXPECT_EQ(out, (Tokens{3, 2}));
}

TEST(CharBpe, CharacterWithoutATokenCanMerge) {
  CharBpeModel model(2);
  model.written.set_bytes(0, "ab");
  model.written.index(0);
  model.written.set_bytes(1, "?");
  model.written.index(1);
  model.characters_without_token = {{'a', 2}, {'b', 3}};
  model.merges = {{2, 3, 0, 0}};
  model.unknown = 1;
  const CharBpe bpe(std::move(model));
  Tokens out;
  bpe.encode("aab", out);
  EXPECT_EQ(out, (Tokens{1, 0}));
}

}  // namespace
}  // namespace ibid
