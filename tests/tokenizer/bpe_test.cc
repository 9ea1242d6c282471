#include "tokenizer/models/bpe.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/reference/bpe_ref.h"
#include "tests/tokenizer/golden_tokenizers.h"

namespace ibid {
namespace {

// A vocabulary of all bytes except `lacking`, and random merges of its tokens.
struct RandomModel {
  Vocabulary vocabulary{600};
  BpeModel model;

  RandomModel(std::mt19937_64& random, std::string_view alphabet, std::string_view lacking) {
    model.byte_ids.fill(kNoToken);
    TokenId next = 0;
    for (int b = 0; b < 256; ++b) {
      const char byte = static_cast<char>(b);
      if (lacking.find(byte) != std::string_view::npos) continue;
      vocabulary.set_bytes(next, {&byte, 1});
      vocabulary.index(next);
      model.byte_ids[static_cast<size_t>(b)] = next++;
    }
    std::vector<TokenId> parts;
    for (const char byte : alphabet) parts.push_back(model.byte_ids[static_cast<unsigned char>(byte)]);
    for (int tries = 0; tries < 400 && next < 600; ++tries) {
      const TokenId left = parts[random() % parts.size()], right = parts[random() % parts.size()];
      if (left == kNoToken || right == kNoToken) continue;
      const std::string joined = std::string(vocabulary.bytes(left)) + std::string(vocabulary.bytes(right));
      TokenId result = vocabulary.find(joined);
      if (result == kNoToken) {
        result = next++;
        vocabulary.set_bytes(result, joined);
        vocabulary.index(result);
        parts.push_back(result);
      }
      model.merges.push_back({left, right, result});
    }
    model.is_control.assign(600, false);
  }
};

std::string random_piece(std::mt19937_64& random, std::string_view alphabet, size_t length) {
  std::string out;
  while (out.size() < length) out += alphabet[random() % alphabet.size()];
  return out;
}

Tokens encode(const Bpe& bpe, std::string_view piece, bool allow_control = true) {
  Tokens out;
  bpe.encode(piece, allow_control, out);
  return out;
}

TEST(Bpe, BpeEqualsItsDefinitionOnRandomMergesAndPieces) {
  std::mt19937_64 random(test_seed());
  const std::string_view alphabet = "abcde \xC3\xA9\xFF";
  for (int round = 0; round < 40; ++round) {
    const RandomModel r(random, alphabet, round % 2 == 0 ? "" : "c\xA9");
    const Bpe bpe(r.vocabulary, r.model);
    for (int i = 0; i < 60; ++i) {
      const std::string piece = random_piece(random, alphabet, 1 + random() % (i % 6 == 0 ? 200 : 40));
      ASSERT_EQ(encode(bpe, piece), bpe_by_definition(r.model, piece)) << testing::PrintToString(piece);
      ASSERT_EQ(encode(bpe, piece), encode(bpe, piece)) << "the second time";
    }
  }
}

TEST(Bpe, BpeEqualsItsDefinitionOnRawBytes) {
  std::mt19937_64 random(test_seed() + 1);
  std::string all;
  for (int b = 0; b < 256; ++b) all += static_cast<char>(b);
  const RandomModel r(random, all.substr(250), "\x01\x80");
  const Bpe bpe(r.vocabulary, r.model);
  for (int i = 0; i < 500; ++i) {
    const std::string piece = random_piece(random, i % 2 == 0 ? all : all.substr(250), 1 + random() % 120);
    ASSERT_EQ(encode(bpe, piece), bpe_by_definition(r.model, piece)) << testing::PrintToString(piece);
  }
}

// Lengths around kShortPiece, where another algorithm begins.
TEST(Bpe, ShortAndLongPiecesAgreeWithTheDefinition) {
  std::mt19937_64 random(test_seed() + 2);
  const RandomModel r(random, "ab", "");
  const Bpe bpe(r.vocabulary, r.model);
  for (size_t length = 1; length <= 120; ++length) {
    for (const std::string& piece : {std::string(length, 'a'), random_piece(random, "ab", length)}) {
      ASSERT_EQ(encode(bpe, piece), bpe_by_definition(r.model, piece)) << length;
    }
  }
}

struct TinyModel {
  Vocabulary vocabulary{8};
  BpeModel model;
  TokenId add(TokenId id, std::string_view bytes) {
    vocabulary.set_bytes(id, bytes);
    vocabulary.index(id);
    if (bytes.size() == 1) model.byte_ids[static_cast<unsigned char>(bytes[0])] = id;
    return id;
  }
  TinyModel() {
    model.byte_ids.fill(kNoToken);
    model.is_control.assign(8, false);
    add(0, "a");
    add(1, "b");
    add(2, "c");
    add(3, "ab");
    add(4, "bc");
    add(5, "abc");  // no merge gives this token
  }
};

TEST(Bpe, MergesApplyByListRankThenLeftmost) {
  TinyModel t;
  t.model.merges = {{1, 2, 4}, {0, 1, 3}};  // bc precedes ab although its id is higher
  EXPECT_EQ(encode(Bpe(t.vocabulary, t.model), "abc"), (Tokens{0, 4}));
  t.model.merges = {{0, 1, 3}, {1, 2, 4}};
  EXPECT_EQ(encode(Bpe(t.vocabulary, t.model), "abc"), (Tokens{3, 2}));
}

TEST(Bpe, LaterOfTwoMergesOfAPairWins) {
  TinyModel t;
  t.model.merges = {{0, 1, 3}, {1, 2, 4}, {0, 1, 3}};
  EXPECT_EQ(encode(Bpe(t.vocabulary, t.model), "abc"), (Tokens{0, 4}));
}

TEST(Bpe, IgnoreMergesAppliesToWholePiecesOnly) {
  TinyModel t;
  t.model.merges = {{0, 1, 3}};
  t.model.ignore_merges = true;
  const Bpe bpe(t.vocabulary, t.model);
  EXPECT_EQ(encode(bpe, "abc"), (Tokens{5}));
  EXPECT_EQ(encode(bpe, "abca"), (Tokens{3, 2, 0}));
}

TEST(Bpe, BytesWithoutATokenAreDroppedAndTheirNeighboursMerge) {
  TinyModel t;
  t.model.merges = {{0, 1, 3}};
  const Bpe bpe(t.vocabulary, t.model);
  EXPECT_EQ(encode(bpe, "axb"), (Tokens{3}));
  EXPECT_EQ(encode(bpe, "x"), Tokens{});
  EXPECT_EQ(encode(bpe, "xx"), Tokens{});
  EXPECT_EQ(encode(bpe, std::string(100, 'x')), Tokens{});
}

TEST(Bpe, MessageTextNeverMergesIntoAControlToken) {
  TinyModel t;
  t.model.merges = {{0, 1, 3}, {3, 2, 5}};
  t.model.is_control[5] = true;
  const Bpe bpe(t.vocabulary, t.model);
  EXPECT_EQ(encode(bpe, "abc"), (Tokens{5}));
  EXPECT_EQ(encode(bpe, "abc", false), (Tokens{3, 2}));
  t.model.is_control[3] = true;
  t.model.ignore_merges = true;
  EXPECT_EQ(encode(Bpe(t.vocabulary, t.model), "abc", false), (Tokens{0, 1, 2}));
}

TEST(Bpe, LongRunsOfOneByteAreEncoded) {
  std::mt19937_64 random(test_seed() + 3);
  const RandomModel r(random, "a", "");
  const Bpe bpe(r.vocabulary, r.model);
  size_t bytes = 0;
  for (const TokenId id : encode(bpe, std::string(1'000'000, 'a'))) bytes += r.vocabulary.bytes(id).size();
  EXPECT_EQ(bytes, 1'000'000u);
}

}  // namespace
}  // namespace ibid
