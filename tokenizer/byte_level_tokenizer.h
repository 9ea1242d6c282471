// ByteLevelTokenizer: the tokenizers of GPT-2's family (SmolLM, Llama 3, Qwen, gpt-oss, ...): they cut a text into
// pre-tokens, and apply byte pair encoding in each.
//
// Built from a ByteLevelSpec, which the loaders fill. Immutable and thread-safe.
#pragma once

#include <optional>
#include <string_view>

#include "tokenizer/models/bpe.h"
#include "tokenizer/pipeline_tokenizer.h"
#include "tokenizer/splitting/pretokenizer.h"
#include "tokenizer/splitting/staged_split.h"

namespace ibid {

struct ByteLevelSpec : PipelineSpec {
  using PipelineSpec::PipelineSpec;

  BpeModel bpe;  // is_control is set when the tokenizer is built
  // How texts are cut: by a scanner, or else by steps. REQUIRES: one of them is there.
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
  std::optional<StagedSplit> stages_;  // where there is no scanner
  Bpe bpe_;
};

}  // namespace ibid
