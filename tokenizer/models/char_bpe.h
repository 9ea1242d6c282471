// Byte pair encoding over characters, as SentencePiece and `tokenizers` do it for Llama 2, Mistral, Gemma and Phi-3:
// every character is a symbol, characters that are no token become byte tokens or the unknown token, and neighbours are
// merged as in MergeTable.
//
// Borders. There are no pre-tokens, yet a text falls into parts. Let P be the pairs of characters that stand side
// by side somewhere inside the text of a merge's result. No merge ever happens between two characters x and y of a
// text whose pair is not in P: the symbols to both sides spell a text that ends in x and one that begins with y,
// and the result of their merge would hold x and y side by side. So no symbol ever spans the place, the merges on
// one side find the same neighbours whatever stands on the other, and as each is the lowest of all, leftmost first,
// the order among those of one side is what it is without the other. Hence the ids of a text are those of its
// parts, one after another. A border between two characters that are there stays a border however the text goes on.
// This makes ids final while a text grows. In prose of a published vocabulary every space is a border. Characters
// that are no token are borders where nothing is merged from byte tokens and bytes stand for all of them; else they
// join what is next to them (char_bpe.cc).
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/models/code_points.h"
#include "tokenizer/models/merge_table.h"
#include "tokenizer/models/piece_model.h"

namespace ibid {

struct CharBpeModel {
  explicit CharBpeModel(size_t vocab_size) : written(vocab_size) { byte_ids.fill(kNoToken); }

  Vocabulary written;  // indexed: what symbols and results are
  // Numbers from written.size() on stand for single characters that are no token, but part of one.
  std::vector<std::pair<uint32_t, TokenId>> loose_characters;
  std::vector<RankedMerge> merges;
  std::array<TokenId, 256> byte_ids;  // <0x00> to <0xFF>; kNoToken where there is none
  bool byte_fallback = false;         // a character that is no token becomes the tokens of its bytes, if all are there
  TokenId unknown = kNoToken;         // what else it becomes; kNoToken: nothing
  bool fuse_unknown = false;          // neighbours that are unknown become one
  bool ignore_merges = false;         // a whole text that is a token is that token
};

class CharBpe final : public PieceModel {
 public:
  explicit CharBpe(CharBpeModel model);

  void encode(std::string_view text, Tokens& out) const override;
  Piece scan(std::string_view text, size_t begin) const override;
  void encode_stretch(std::string_view text, Tokens& out) const override;

 private:
  // A character of a text. Bytes that are not UTF-8 are taken as they are.
  struct Symbol {
    uint32_t code_point;
    TokenId id;  // kNoToken: no token
    uint8_t length;
    bool cut;  // the end of the text is in the middle of it
  };
  // Symbols to be merged; a text has no more of them than bytes.
  struct Row {
    std::span<TokenId> places;
    size_t n = 0;
    void push(TokenId id) { places[n++] = id; }
  };
  static constexpr size_t kShortText = 48;  // bytes whose symbols need no memory from the heap

  Symbol symbol_at(std::string_view text, size_t position) const;
  bool joined(const Symbol& first, const Symbol& second) const;
  void add_unknown(std::string_view bytes, bool& pending, Row& symbols) const;
  void add_result(TokenId symbol, Tokens& out) const;

  CodePointMap symbols_;
  CodePointPairs pairs_;
  MergeTable merges_;
  std::array<TokenId, 256> byte_ids_;
  std::vector<std::string> loose_;  // by number - vocabulary size
  TokenId unknown_;
  bool byte_fallback_, fuse_unknown_, ignore_merges_;
  bool unknown_joins_;  // a character that is no token has no border beside it
  enum Reachable : uint8_t { kUnknown, kYes, kNo };
  std::unique_ptr<std::atomic<uint8_t>[]> reachable_;  // by id: whether merges make its text this token
};

}  // namespace ibid
