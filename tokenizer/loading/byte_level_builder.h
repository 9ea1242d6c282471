// ByteLevelBuilder: checks a vocabulary that is written in the byte alphabet, and collects it into a ByteLevelSpec.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "tokenizer/byte_level_tokenizer.h"
#include "tokenizer/loading/tokenizer_builder.h"

namespace ibid {

class ByteLevelBuilder final : public TokenizerBuilder {
 public:
  // `source` names the file in messages. REQUIRES: vocab_size <= VocabularyLimits::kMaxTokens.
  ByteLevelBuilder(std::string source, size_t vocab_size);

  // A token of the model, written in the byte alphabet; one with other characters can never be part of a
  // text. Errors: kBadVocab (empty, too long, its text or id is there already).
  Status add_model_token(TokenId id, std::string_view text);
  // A token that stands for one byte, written <0xHH>: shown, never produced. Error: kBadByteToken.
  Status add_byte_token(TokenId id, std::string_view text);

  bool lacks_bytes() const;

  ByteLevelSpec& spec() { return spec_; }
  std::unique_ptr<Tokenizer> finish() override;

 private:
  std::string shown(std::string_view text) const override;
  TokenId find_model_token(std::string_view text) const override;
  const Vocabulary& symbols() const override { return spec_.vocabulary; }
  bool append_symbol(std::string_view text, std::string& out) const override;
  void take_merge(const RankedMerge& merge) override;

  ByteLevelSpec spec_;
  std::string bytes_;  // scratch of add_model_token
};

}  // namespace ibid
