// PipelineTokenizer: the steps that all tokenizers of `tokenizers` have around their model. Finds added tokens in the
// raw text, normalizes each section between these tokens, and finds further added tokens in the normalized text. A
// derived class then splits each stretch of text between added tokens into pieces and encodes the pieces.
//
// A section is the text between two added tokens of the raw text. A normalizer that adds a space before a text adds it
// before each section. Immutable and thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/added_tokens.h"
#include "tokenizer/models/bpe.h"
#include "tokenizer/models/piece_model.h"
#include "tokenizer/models/vocabulary.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/splitting/pattern.h"
#include "tokenizer/splitting/pretokenizer.h"
#include "tokenizer/splitting/staged_split.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

// The part of a tokenizer file that all families have. The content is checked: ids are in range, and no two texts are
// equal.
struct PipelineSpec {
  explicit PipelineSpec(size_t vocab_size) : vocabulary(vocab_size), special(vocab_size) {}

  Vocabulary vocabulary;      // the bytes to which each token is decoded; find() finds only model tokens
  std::vector<bool> special;  // added tokens with special=true, by id; message text must never become one
  std::vector<AddedToken> added;
  Normalizer normalizer;
  Normalizer rewriter;    // Metaspace's steps, applied to normalized text between added tokens
  Tokens prefix, suffix;  // tokens that the post-processor adds around a text
  std::optional<TokenId> bos, eos;
  std::vector<TokenId> end_of_turn;
  std::vector<std::string> warnings;
};

class PipelineTokenizer : public Tokenizer {
 public:
  PipelineTokenizer(const PipelineTokenizer&) = delete;  // not copyable, because members point into each other
  PipelineTokenizer& operator=(const PipelineTokenizer&) = delete;

  size_t vocab_size() const override { return spec_.vocabulary.size(); }
  Tokens encode(std::string_view text, TextOrigin origin, bool add_special) const override;
  PartialEncoding encode_growing(const MarkedText& text, TextContext before) const override;
  std::string_view token_bytes(TokenId id) const override { return spec_.vocabulary.bytes(id); }
  std::string decode(TokenSpan ids) const override;
  bool is_special(TokenId id) const override;
  std::optional<TokenId> find_token(std::string_view text) const override;
  std::optional<TokenId> bos() const override { return spec_.bos; }
  std::optional<TokenId> eos() const override { return spec_.eos; }
  const std::vector<TokenId>& end_of_turn() const override { return spec_.end_of_turn; }
  const std::vector<std::string>& warnings() const override { return spec_.warnings; }
  void add_end_of_turn(TokenId id) override { spec_.end_of_turn.push_back(id); }

 protected:
  explicit PipelineTokenizer(PipelineSpec spec);
  const PipelineSpec& spec() const { return spec_; }

  // Returns the piece that starts at text[begin], where the previous piece ended (see pretokenizer.h). `memory` is
  // passed to all calls for one text, and is empty at the first.
  virtual Piece scan(std::string_view text, size_t begin, ScanMemory& memory) const = 0;
  // Appends the tokens of a piece. only_template: the whole piece comes from the template, so control tokens are
  // allowed.
  virtual void encode_piece(std::string_view piece, bool only_template, Tokens& out) const = 0;
  // Returns the model token whose text in the vocabulary is `text`, or kNoToken.
  virtual TokenId find_model_token(std::string_view text) const = 0;

 private:
  class Walk;

  PipelineSpec spec_;
  std::unordered_map<std::string, TokenId> added_ids_;
  AddedTokenSet raw_added_;         // added tokens that are found before the normalizer
  AddedTokenSet normalized_added_;  // added tokens that are found after the normalizer
};

// --- ByteLevelTokenizer: the tokenizers of GPT-2's family (SmolLM, Llama 3, Qwen, gpt-oss, ...): they split a text
// into pre-tokens, and apply byte pair encoding in each. Built from a ByteLevelSpec, which the loaders fill. Immutable
// and thread-safe.

struct ByteLevelSpec : PipelineSpec {
  using PipelineSpec::PipelineSpec;

  BpeModel bpe;  // the tokenizer's constructor sets is_control
  // How texts are split: by the scanner if it is set, else by the steps. REQUIRES: one of the two is set.
  ScanFunction scan = nullptr;
  std::optional<StagedSplit> split;
};

class ByteLevelTokenizer final : public PipelineTokenizer {
 public:
  explicit ByteLevelTokenizer(ByteLevelSpec spec);

 private:
  Piece scan(std::string_view text, size_t begin, ScanMemory& memory) const override {
    return scan_ != nullptr ? scan_(text, begin) : stages_->scan(text, begin, memory);
  }
  void encode_piece(std::string_view piece, bool only_template, Tokens& out) const override {
    bpe_.encode(piece, only_template, out);
  }
  TokenId find_model_token(std::string_view text) const override { return spec().vocabulary.find(text); }

  ScanFunction scan_;
  std::optional<StagedSplit> stages_;  // set if the spec has no scanner
  Bpe bpe_;
};

// --- PieceTokenizer: the tokenizers of SentencePiece's family (Llama 2, Mistral, Gemma, Phi-3, T5). Writes spaces as
// the mark U+2581, encodes the text with a model over characters, and decodes marks to spaces. Built from a PieceSpec,
// which the loaders fill. Immutable and thread-safe.

// At which positions a text is split before the model encodes the parts.
enum class PieceCut {
  kNowhere,     // no split except at the model's own boundaries
  kSpaceMarks,  // split before every U+2581
  kLines,       // split into runs of line feeds and the text between them
  kSteps,       // split by the steps of PieceSpec::split
};

// How the first token of a decoded text is shown.
enum class FirstToken {
  kAsItIs,
  kWithoutOneSpace,
  kWithoutSpaces,  // shown without its space marks
};

struct PieceSpec : PipelineSpec {
  using PipelineSpec::PipelineSpec;

  std::unique_ptr<PieceModel> model;
  PieceCut cut = PieceCut::kNowhere;
  std::optional<StagedSplit> split;
  bool whole_newline_runs = false;  // kLines: a run of line feeds that is a token becomes this token without merges
  FirstToken first_token = FirstToken::kAsItIs;
};

class PieceTokenizer final : public PipelineTokenizer {
 public:
  explicit PieceTokenizer(PieceSpec spec);

  std::string_view first_token_bytes(TokenId id) const override;

 private:
  Piece scan(std::string_view text, size_t begin, ScanMemory& memory) const override;
  void encode_piece(std::string_view piece, bool only_template, Tokens& out) const override;
  TokenId find_model_token(std::string_view text) const override { return model_->written().find(text); }

  std::unique_ptr<PieceModel> model_;
  PieceCut cut_;
  std::optional<StagedSplit> split_;
  bool whole_newline_runs_;
  FirstToken first_token_;
  std::unordered_map<TokenId, std::string>
      without_spaces_;  // for kWithoutSpaces: the bytes, without space marks, of each token that contains any
};

}  // namespace ibid
