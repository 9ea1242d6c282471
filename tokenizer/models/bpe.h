// Byte-level byte pair encoding (Sennrich et al. 2016; GPT-2): the tokens of one piece of text.
//
// The rank of a merge is its place in the list, never the id of its result. O(n log n) in the length of any piece.
// Immutable and thread-safe.
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
  std::array<TokenId, 256> byte_ids;  // kNoToken: the vocabulary lacks the byte, and encoding drops it
  std::vector<Merge> merges;          // by rank; if a pair has two merges, the later one counts
  bool ignore_merges = false;         // a piece that is a token becomes that token, even if merges do not lead to it
  std::vector<bool> is_control;       // by id: message text must never become it
};

class Bpe {
 public:
  // `vocabulary` must outlive the object. REQUIRES: every token of `model` has bytes in it.
  Bpe(const Vocabulary& vocabulary, BpeModel model);

  // Appends the tokens of `piece`. Without allow_control, a merge into a control token is undone: only vocabularies in
  // which plain text merges into one are affected.
  void encode(std::string_view piece, bool allow_control, Tokens& out) const;

 private:
  static constexpr size_t kShortPiece = 48;  // bytes that need no heap allocation

  bool is_control(TokenId id) const;
  void merge(std::string_view piece, Tokens& out) const;
  void undo_control(size_t begin, Tokens& out) const;

  // Whether merges turn the bytes of a token into that token. Computed on first use; all threads get the same value.
  enum Reachable : uint8_t { kUnknown, kYes, kNo };

  const Vocabulary* vocabulary_;
  BpeModel model_;
  MergeTable merges_;
  std::unique_ptr<std::atomic<uint8_t>[]> reachable_;
  std::unordered_map<TokenId, Merge> control_merges_;  // by result; empty for every published vocabulary
};

// --- Byte pair encoding over characters, as SentencePiece and `tokenizers` do it for Llama 2, Mistral, Gemma and
// Phi-3: every character is a symbol, characters without a token become byte tokens or the unknown token, and
// neighbours merge as in MergeTable.
// Boundaries. There are no pre-tokens, yet a text can be split. Let P be the pairs of adjacent characters inside the
// texts of merge results. No merge ever joins adjacent characters x and y of a text whose pair is not in P: the symbols
// on both sides spell texts that end in x and begin with y, so the result of their merge would contain x next to y. So
// no symbol ever spans that position, the merges on one side find the same neighbours for any text on the other, and as
// each merge is the lowest of all, leftmost first, their order on one side does not depend on the other. Hence the
// tokens of a text are those of its parts, in order, and a boundary between two present characters remains one when the
// text grows: tokens become final. In prose every space is a boundary in published vocabularies. Characters without a
// token have boundaries around them if no merge involves byte tokens and every byte has one; else they join their
// neighbours (bpe.cc).

struct CharBpeModel {
  explicit CharBpeModel(size_t vocab_size) : written(vocab_size) { byte_ids.fill(kNoToken); }

  Vocabulary written;  // indexed: symbols and results of merges
  // Numbers from written.size() on denote single characters that are no token, but part of one.
  std::vector<std::pair<uint32_t, TokenId>> characters_without_token;
  std::vector<RankedMerge> merges;
  std::array<TokenId, 256> byte_ids;  // <0x00> to <0xFF>; kNoToken for a byte without one
  bool byte_fallback = false;         // a character without a token becomes the tokens of its bytes, if all exist
  TokenId unknown = kNoToken;         // otherwise it becomes this one; kNoToken: is dropped
  bool fuse_unknown = false;          // adjacent unknown characters become one
  bool ignore_merges = false;         // a whole text that is a token becomes that token
};

class CharBpe final : public PieceModel {
 public:
  explicit CharBpe(CharBpeModel model);

  void encode(std::string_view text, Tokens& out) const override;
  Piece scan(std::string_view text, size_t begin) const override;
  void encode_part(std::string_view text, Tokens& out) const override;

 private:
  // A character of a text. Each byte that is not UTF-8 counts as one.
  struct Symbol {
    uint32_t code_point;
    TokenId id;  // kNoToken: no token
    uint8_t length;
    bool cut;  // the text ends in the middle of it
  };
  // Symbols to be merged; at most one per byte of the text.
  struct Row {
    std::span<TokenId> places;
    size_t n = 0;
    void push(TokenId id) { places[n++] = id; }
  };
  static constexpr size_t kShortText = 48;  // bytes whose symbols need no heap allocation

  Symbol symbol_at(std::string_view text, size_t position) const;
  bool joined(const Symbol& first, const Symbol& second) const;
  void add_unknown(std::string_view bytes, bool& pending, Row& symbols) const;
  void add_result(TokenId symbol, Tokens& out) const;

  CodePointMap symbols_;
  CodePointPairs pairs_;
  MergeTable merges_;
  std::array<TokenId, 256> byte_ids_;
  std::vector<std::string> loose_;  // by symbol - vocabulary size
  TokenId unknown_;
  bool byte_fallback_, fuse_unknown_, ignore_merges_;
  bool unknown_joins_;  // characters without a token join their neighbours: no boundary there
  enum Reachable : uint8_t { kUnknown, kYes, kNo };
  std::unique_ptr<std::atomic<uint8_t>[]> reachable_;  // by id: whether merges make its text this token
};

}  // namespace ibid
