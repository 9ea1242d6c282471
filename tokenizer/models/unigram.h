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
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "ibid/token.h"
#include "tokenizer/models/piece_model.h"

namespace ibid {

// --- ByteTrie: finds which of a set of byte strings a text begins with. It is a double array (Aoe 1989; the form
// with XOR of Yata et al. 2007), which takes one load for each byte of the text and no further memory.
// A node is a unit, its child by a byte stands at base ^ byte and names its parent. Units come in blocks of 256 that
// differ in their low byte alone, so a child's place needs no check of bounds. Built once, immutable and thread-safe.

class ByteTrie {
 public:
  struct Entry {
    std::string_view text;
    TokenId value;  // >= 0
  };
  ByteTrie() : ByteTrie(std::vector<Entry>()) {}
  // REQUIRES: no text is empty, no text is there twice. Memory: O(sum of the texts' bytes).
  explicit ByteTrie(std::vector<Entry> entries);

  // Calls found(length, value) for every entry that text[begin, ...) begins with, the shortest first.
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

  // A node without children has the base 0; nothing that stands there names it as its parent.
  struct Unit {
    uint32_t base = 0;
    uint32_t parent = kFree;
    TokenId value = -1;
  };
  std::vector<Unit> units_;
};

// --- Unigram.

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
