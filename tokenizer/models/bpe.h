// Byte-level byte pair encoding (Sennrich et al. 2016; GPT-2): the ids of one piece of text.
//
// The rank of a merge is its place in the list, never the id of its result. O(n log n) in the length of the piece,
// whatever it holds. Immutable and thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ibid/token.h"
#include "tokenizer/models/piece_model.h"
#include "tokenizer/models/vocabulary.h"

namespace ibid {

struct Merge {
  TokenId left, right;
  TokenId result;  // its bytes are those of left and right, joined
};

struct BpeModel {
  std::array<TokenId, 256> byte_ids;  // kNoToken: the vocabulary lacks the byte, and it vanishes from the ids
  std::vector<Merge> merges;          // by rank; of two merges of one pair the later counts
  bool ignore_merges = false;         // a piece that is a token is that token, reachable by merges or not
  std::vector<bool> is_control;       // by id: what message text must never become
};

class Bpe {
 public:
  // `vocabulary` must outlive the object. REQUIRES: every id of `model` has bytes in it.
  Bpe(const Vocabulary& vocabulary, BpeModel model);

  // Appends the ids of `piece`. Without allow_control, a merge that would give a control token is left
  // undone: only vocabularies that let plain text merge into one ever differ.
  void encode(std::string_view piece, bool allow_control, Tokens& out) const;

 private:
  static constexpr size_t kShortPiece = 48;  // bytes that need no memory from the heap

  bool is_control(TokenId id) const;
  void merge(std::string_view piece, Tokens& out) const;
  void undo_control(size_t begin, Tokens& out) const;

  // Whether merges turn the bytes of a token into that token: found out when first asked, and the same for
  // every thread that asks.
  enum Reachable : uint8_t { kUnknown, kYes, kNo };

  const Vocabulary* vocabulary_;
  BpeModel model_;
  MergeTable merges_;
  std::unique_ptr<std::atomic<uint8_t>[]> reachable_;
  std::unordered_map<TokenId, Merge> control_merges_;  // by result; empty for every published vocabulary
};

// --- Byte pair encoding over characters, as SentencePiece and `tokenizers` do it for Llama 2, Mistral, Gemma and
// Phi-3: every character is a symbol, characters that are no token become byte tokens or the unknown token, and
// neighbours are merged as in MergeTable.
// Borders. There are no pre-tokens, yet a text falls into parts. Let P be the pairs of characters that stand side by
// side somewhere inside the text of a merge's result. No merge ever happens between two characters x and y of a text
// whose pair is not in P: the symbols to both sides spell a text that ends in x and one that begins with y, and the
// result of their merge would hold x and y side by side. So no symbol ever spans the place, the merges on one side
// find the same neighbours whatever stands on the other, and as each is the lowest of all, leftmost first, the order
// among those of one side is what it is without the other. Hence the ids of a text are those of its parts, one after
// another. A border between two characters that are there stays a border however the text goes on. This makes ids
// final while a text grows. In prose of a published vocabulary every space is a border. Characters that are no token
// are borders where nothing is merged from byte tokens and bytes stand for all of them; else they join what is next
// to them (bpe.cc).

struct CharBpeModel {
  explicit CharBpeModel(size_t vocab_size) : written(vocab_size) { byte_ids.fill(kNoToken); }

  Vocabulary written;  // indexed: what symbols and results are
  // Numbers from written.size() on stand for single characters that are no token, but part of one.
  std::vector<std::pair<uint32_t, TokenId>> loose_characters;
  std::vector<RankedMerge> merges;
  std::array<TokenId, 256> byte_ids;  // <0x00> to <0xFF>; kNoToken for a byte without one
  bool byte_fallback = false;         // a character that is no token becomes the tokens of its bytes, if all are there
  TokenId unknown = kNoToken;         // otherwise it becomes this one; kNoToken: nothing
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
  bool unknown_joins_;  // characters without a token join their neighbours
  enum Reachable : uint8_t { kUnknown, kYes, kNo };
  std::unique_ptr<std::atomic<uint8_t>[]> reachable_;  // by id: whether merges make its text this token
};

}  // namespace ibid
