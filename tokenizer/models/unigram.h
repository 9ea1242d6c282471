// Unigram: finds the split of a text into tokens with the highest sum of scores (Kudo 2018). It computes as
// `tokenizers` and SentencePiece do: from left to right, in double precision; of splits with equal sums, the first one
// found wins.
//
// A character without a token of its own may become the unknown token, with a score that is 10 below the lowest score
// of a token. Adjacent characters of this kind are encoded together: as the token that they spell; else as the tokens
// of their bytes; else as the unknown token.
//
// Boundaries (PieceModel::scan): let x and y be adjacent characters. If no token contains xy, and x and y are not both
// unknown, no token and no run of unknown characters spans the position between them. Every split of the text is then a
// split of the left part and one of the right part, so the best split of the text consists of the best splits of the
// parts. The first and the last character of the unknown token's own text count as unknown.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "ibid/token.h"
#include "tokenizer/models/piece_model.h"

namespace ibid {

// --- ByteTrie: finds which of a set of byte strings are prefixes of a text. A double array (Aoe 1989; the form with
// XOR of Yata et al. 2007), which loads one unit for each byte of the text. Each node is a unit; its child for a byte
// is at base ^ byte and names its parent. Units come in blocks of 256 that differ only in the low byte of their index,
// so the index of a child needs no bounds check. Built once, immutable and thread-safe.

class ByteTrie {
 public:
  struct Entry {
    std::string_view text;
    TokenId value;  // not negative
  };
  ByteTrie() : ByteTrie(std::vector<Entry>()) {}
  // REQUIRES: no text is empty, and no two are equal. Memory: O(sum of the texts' bytes).
  explicit ByteTrie(std::vector<Entry> entries);

  // Calls found(length, value) for every entry that is a prefix of text[begin, ...), the shortest first.
  template <typename Found>
  void for_each_prefix(std::string_view text, size_t begin, Found found) const {
    uint32_t node = 0;
    for (size_t at = begin; at < text.size(); ++at) {
      const uint32_t child = units_[node].base ^ static_cast<unsigned char>(text[at]);
      const Unit& unit = units_[child];
      if (unit.parent != node) return;
      node = child;
      if (unit.value >= 0) found(at + 1 - begin, unit.value);
    }
  }

  size_t n_units() const { return units_.size(); }

 private:
  class Builder;
  static constexpr uint32_t kFree = UINT32_MAX;

  // A node of the trie. A node without children has base 0, and no unit of block 0 names it as its parent.
  struct Unit {
    uint32_t base = 0;
    uint32_t parent = kFree;
    TokenId value = -1;
  };
  std::vector<Unit> units_;
};

struct UnigramModel {
  explicit UnigramModel(size_t vocab_size) : written(vocab_size), scores(vocab_size), is_piece(vocab_size) {
    byte_ids.fill(kNoToken);
  }

  Vocabulary written;
  std::vector<double> scores;  // score of each token, by id; finite
  std::vector<bool> is_piece;  // by id: true for tokens that can occur in a split; others affect only the lowest score
  std::array<TokenId, 256> byte_ids;
  bool byte_fallback = false;
  TokenId unknown = kNoToken;  // REQUIRES: not kNoToken
};

class Unigram final : public PieceModel {
 public:
  explicit Unigram(UnigramModel model);

  void encode(std::string_view text, Tokens& out) const override;
  Piece scan(std::string_view text, size_t begin) const override;

 private:
  // The best split of the text up to a position: the sum of its scores, its last token, and the number of bytes of that
  // token.
  struct Best {
    double score = 0;
    uint32_t length = 0;  // 0: no split is known yet
    TokenId token = kNoToken;
  };
  static constexpr size_t kShortText = 64;  // maximum bytes of a text that needs no heap allocation

  void find_best(std::string_view text, Best* best) const;
  void add_unknown(std::string_view text, Tokens& out) const;
  bool is_known(const DecodedChar& c) const;

  std::vector<double> scores_;
  ByteTrie pieces_;
  CodePointMap single_;                        // tokens of one character
  std::array<uint32_t, 2> ends_of_unknown_{};  // the first and the last character of the text of the unknown token
  CodePointPairs pairs_;
  std::array<TokenId, 256> byte_ids_;
  bool byte_fallback_;
  TokenId unknown_;
  double unknown_score_;
};

}  // namespace ibid
