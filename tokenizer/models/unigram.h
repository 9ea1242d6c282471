// Unigram: of all ways to write a text as tokens it finds the one with the highest sum of scores (Kudo 2018). It
// computes as `tokenizers` and SentencePiece do: left to right, sums in double, of equal sums the first that is
// found.
//
// A character that is no token by itself may be written as the unknown token, at 10 below the lowest score. Neighbours
// that are written so become one: the token that they spell, else the tokens of their bytes, else the unknown token.
//
// Borders (PieceModel::scan): where two characters meet that no token has side by side, and that are not both
// unknown, no token and no run of unknown ones spans the place. Every way to write the text then is a way for the
// left part and a way for the right part, so the best way is the best of both. The first and the last character of
// the unknown token's own text count as unknown.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "tokenizer/models/byte_trie.h"
#include "tokenizer/models/code_points.h"
#include "tokenizer/models/piece_model.h"

namespace ibid {

struct UnigramModel {
  explicit UnigramModel(size_t vocab_size) : written(vocab_size), scores(vocab_size), is_piece(vocab_size) {
    byte_ids.fill(kNoToken);
  }

  Vocabulary written;
  std::vector<double> scores;  // by id; finite
  std::vector<bool> is_piece;  // by id: what texts are written with; of the others only the score counts
  std::array<TokenId, 256> byte_ids;
  bool byte_fallback = false;
  TokenId unknown = kNoToken;  // REQUIRES: a token
};

class Unigram final : public PieceModel {
 public:
  explicit Unigram(UnigramModel model);

  void encode(std::string_view text, Tokens& out) const override;
  Piece scan(std::string_view text, size_t begin) const override;

 private:
  // The best way to write the text up to a place: its sum, its last token, and the bytes of that.
  struct Best {
    double score = 0;
    uint32_t length = 0;  // 0: no way was found yet
    TokenId token = kNoToken;
  };
  static constexpr size_t kShortText = 64;  // bytes whose ways need no memory from the heap

  void find_best(std::string_view text, Best* best) const;
  void add_unknown(std::string_view text, Tokens& out) const;
  bool is_known(const DecodedChar& c) const;

  std::vector<double> scores_;
  ByteTrie pieces_;
  CodePointMap single_;  // tokens of one character
  std::array<uint32_t, 2> ends_of_unknown_{};  // the first and the last character of the unknown token's text
  CodePointPairs pairs_;
  std::array<TokenId, 256> byte_ids_;
  bool byte_fallback_;
  TokenId unknown_;
  double unknown_score_;
};

}  // namespace ibid
