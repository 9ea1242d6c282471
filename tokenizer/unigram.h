// Unigram: of all ways to write a text as tokens the one with the highest sum of scores (Kudo 2018), as `tokenizers`
// and SentencePiece compute it: left to right, sums in double, of equal ones the first found.
//
// A character that is no token by itself may be written as the unknown token, at 10 below the lowest score. Neighbours
// that are written so become one: the token that they spell, else the tokens of their bytes, else the unknown token.
//
// Borders (PieceModel::scan): between two characters that no token has side by side, and that are not both unknown, no
// token and no run of unknown ones spans the place. Every way to write the text is one of each side then, so the best
// is the best of both. The unknown token's own text counts among the unknown: what it begins and ends with does.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "tokenizer/code_points.h"
#include "tokenizer/piece_model.h"

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
  struct Node {
    uint32_t first_edge = 0, n_edges = 0;
    TokenId token = kNoToken;
  };
  struct Edge {
    uint8_t byte;
    uint32_t node;
  };
  // The best way to write the text up to a place: its last token, and where that begins.
  struct Best {
    double score = 0;
    size_t begin = kNone;
    TokenId token = kNoToken;
  };
  static constexpr size_t kNone = SIZE_MAX;

  void build_trie(const std::vector<bool>& is_piece);
  const Node* child(const Node& node, uint8_t byte) const;
  void add_unknown(std::string_view text, Tokens& out) const;

  std::vector<double> scores_;
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  bool is_known(const DecodedChar& c) const;

  CodePointMap single_;  // tokens of one character
  std::array<uint32_t, 2> ends_of_unknown_{};  // the first and the last character of the unknown token's text
  CodePointPairs pairs_;
  std::array<TokenId, 256> byte_ids_;
  bool byte_fallback_;
  TokenId unknown_;
  double unknown_score_;
};

}  // namespace ibid
