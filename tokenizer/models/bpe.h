// Byte-level byte pair encoding (Sennrich et al. 2016; GPT-2): the tokens of one piece of text.
//
// The rank of a merge is its index in the list of merges, never the id of its result. O(n log n) in the length of the
// piece. Immutable and thread-safe.
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
  TokenId result;  // token whose bytes are those of left, then right
};

struct BpeModel {
  std::array<TokenId, 256> byte_ids;  // token of each byte; kNoToken: encoding drops the byte
  std::vector<Merge> merges;          // ordered by rank; if a pair has two merges, the later one counts
  bool ignore_merges = false;         // a piece that is a token becomes that token, even if merges do not lead to it
  std::vector<bool> is_control;       // true for tokens that message text must never become; indexed by id
};

class Bpe {
 public:
  // `vocabulary` must outlive the object and have the bytes of every token of `model`.
  Bpe(const Vocabulary& vocabulary, BpeModel model);

  // Appends the tokens of `piece`. Without allow_control, merges that result in control tokens are undone; this has an
  // effect only if merges of plain text can lead to a control token.
  void encode(std::string_view piece, bool allow_control, Tokens& out) const;

 private:
  static constexpr size_t kShortPiece = 48;  // maximum bytes of a piece that needs no heap allocation

  bool is_control(TokenId id) const;
  void merge(std::string_view piece, Tokens& out) const;
  void undo_control(size_t begin, Tokens& out) const;

  // Tells whether the merges of a token's bytes lead to this token. Computed on first use; all threads get the same
  // value.
  enum Reachable : uint8_t { kUnknown, kYes, kNo };

  const Vocabulary* vocabulary_;
  BpeModel model_;
  MergeTable merges_;
  std::unique_ptr<std::atomic<uint8_t>[]> reachable_;
  // Merges that result in control tokens, by result; empty for all published vocabularies.
  std::unordered_map<TokenId, Merge> control_merges_;
};

// --- Byte pair encoding over characters, as SentencePiece and `tokenizers` do it for Llama 2, Mistral, Gemma and
// Phi-3: every character is a symbol, characters without a token become byte tokens or the unknown token, and
// neighbours merge as in MergeTable.
// Boundaries: a text can be split, although there are no pre-tokens. Let P be the set of all pairs of adjacent
// characters in the texts of merge results. If a text contains adjacent characters x and y and the pair xy is not in P,
// no merge ever joins the symbols on the two sides: their texts end in x and begin with y, so the text of the result
// would contain xy. No symbol spans that position, so the merges on each side find the same neighbours whatever text is
// on the other side. Each merge is the lowest of all, leftmost first, so the order of the merges on one side does not
// depend on the other side either. Hence the tokens of a text are those of its parts, in order. The boundary remains
// when the text grows, so the tokens before it are final. In published vocabularies every space in prose is a boundary.
// Characters without a token have boundaries around them if no merge involves byte tokens and every byte has a token;
// otherwise they join their neighbours (bpe.cc).
struct CharBpeModel {
  explicit CharBpeModel(size_t vocab_size) : written(vocab_size) { byte_ids.fill(kNoToken); }

  Vocabulary written;  // the tokens by their texts, to find symbols and results of merges
  // Characters without a token that occur in the text of a token, each with its number (from written.size() on).
  std::vector<std::pair<uint32_t, TokenId>> characters_without_token;
  std::vector<RankedMerge> merges;
  std::array<TokenId, 256> byte_ids;  // ids of the tokens <0x00> to <0xFF>; kNoToken: the byte has no token
  bool byte_fallback = false;         // a character without a token becomes byte tokens, if all its bytes have tokens
  TokenId unknown = kNoToken;         // token for all other characters that have no token; kNoToken: they are dropped
  bool fuse_unknown = false;          // adjacent unknown characters become one token
  bool ignore_merges = false;         // a whole text that is a token becomes that token
};

class CharBpe final : public PieceModel {
 public:
  explicit CharBpe(CharBpeModel model);

  void encode(std::string_view text, Tokens& out) const override;
  Piece scan(std::string_view text, size_t begin) const override;
  void encode_part(std::string_view text, Tokens& out) const override;

 private:
  // A character of a text. Each byte that is not UTF-8 counts as a character.
  struct Symbol {
    uint32_t code_point;
    TokenId id;  // kNoToken: the character has no token
    uint8_t length;
    bool cut;  // the text ends in the middle of the character
  };
  // The symbols to be merged; at most one for each byte of the text.
  struct Row {
    std::span<TokenId> symbols;
    size_t n = 0;
    void push(TokenId id) { symbols[n++] = id; }
  };
  static constexpr size_t kShortText = 48;  // maximum bytes of a text whose symbols need no heap allocation

  Symbol symbol_at(std::string_view text, size_t position) const;
  bool joined(const Symbol& first, const Symbol& second) const;
  void add_unknown(std::string_view bytes, bool& pending, Row& row) const;
  void add_result(TokenId symbol, Tokens& out) const;

  CodePointMap symbols_;
  CodePointPairs pairs_;
  MergeTable merges_;
  std::array<TokenId, 256> byte_ids_;
  std::vector<std::string> untokenized_;  // texts of symbols that are not tokens, indexed by symbol - vocabulary size
  TokenId unknown_;
  bool byte_fallback_, fuse_unknown_, ignore_merges_;
  bool unknown_joins_;  // true: there are no boundaries around characters without a token
  enum Reachable : uint8_t { kUnknown, kYes, kNo };
  // For each token id: tells whether merges turn the token's text into this token (Reachable).
  std::unique_ptr<std::atomic<uint8_t>[]> reachable_;
};

}  // namespace ibid
