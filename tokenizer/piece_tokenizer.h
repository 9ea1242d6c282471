// PieceTokenizer: the tokenizers of SentencePiece's family (Llama 2, Mistral, Gemma, Phi-3, T5): a space is written
// as U+2581, a model over characters gives the ids, and a decoder turns the mark back into a space.
//
// Built from a PieceSpec, which the loaders fill. Immutable and thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tokenizer/models/piece_model.h"
#include "tokenizer/pipeline_tokenizer.h"
#include "tokenizer/splitting/staged_split.h"

namespace ibid {

// Where a text is cut before the model sees it.
enum class PieceCut {
  kNowhere,     // the model's own borders are all there are
  kSpaceMarks,  // in front of every U+2581
  kLines,       // runs of line feeds and what stands between them
  kSteps,       // by PieceSpec::split
};

// How the first token of a text is shown.
enum class FirstToken {
  kAsItIs,
  kWithoutOneSpace,
  kWithoutSpaces,  // all of its marks of spaces are left out
};

struct PieceSpec : PipelineSpec {
  using PipelineSpec::PipelineSpec;

  std::unique_ptr<PieceModel> model;
  PieceCut cut = PieceCut::kNowhere;
  std::optional<StagedSplit> split;
  bool whole_newline_runs = false;  // kLines: a run of line feeds that is a token is that token, merges or not
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
  std::unordered_map<TokenId, std::string> without_spaces_;  // kWithoutSpaces: tokens with marks behind other text
};

}  // namespace ibid
