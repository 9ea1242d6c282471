// PieceBuilder: checks a vocabulary that is written as text, SentencePiece's way, and collects it into a PieceSpec and
// a model over characters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "tokenizer/loading/tokenizer_builder.h"
#include "tokenizer/models/char_bpe.h"
#include "tokenizer/piece_tokenizer.h"

namespace ibid {

class PieceBuilder final : public TokenizerBuilder {
 public:
  // Longer tokens cannot have a score: finding their merges costs the square of their length.
  static constexpr size_t kMaxScoredBytes = 512;

  // How a token's text becomes what a text shows.
  struct Display {
    std::vector<std::pair<std::string, std::string>> replacements;  // in this order
    bool bytes = true;                                              // <0xHH> is the byte
  };

  // `source` names the file in messages. REQUIRES: vocab_size <= VocabularyLimits::kMaxTokens.
  PieceBuilder(std::string source, size_t vocab_size, Display display);

  // Adds a token that the model may give. Errors: kBadVocab (empty, too long, its text or id is there already).
  Status add_model_token(TokenId id, std::string_view text);
  // Adds a token that is shown but that no text becomes. Errors: kBadVocab.
  Status add_shown_token(TokenId id, std::string_view text);
  // As add_model_token() for one that stands for a byte, written <0xHH>. Errors: kBadVocab, kBadByteToken (it is not).
  Status add_byte_token(TokenId id, std::string_view text);
  // Sets a score for every id, instead of merges. Of all neighbours that spell a token of the model, those with the
  // highest score merge first, the leftmost of equals. Errors: kBadVocab (not finite, a token too long).
  Status add_scores(const std::vector<double>& scores);

  // Makes the model a Unigram with a score for every id. `unknown` is the id of the unknown token, `unknown_key`
  // the key that it was read from. Errors: kBadVocab (not finite, an id out of range or of no token of the model).
  Status use_unigram(std::vector<double> scores, int64_t unknown, std::string_view unknown_key, bool byte_fallback);

  // The tokens of the model that are written <0xHH> stand for bytes.
  void use_byte_tokens();
  bool lacks_bytes() const;

  // What is not listed above is set directly.
  CharBpeModel& bpe() { return bpe_; }
  PieceSpec& spec() { return spec_; }
  std::unique_ptr<Tokenizer> finish() override;

 private:
  std::string shown(std::string_view text) const override;
  TokenId find_model_token(std::string_view text) const override { return bpe_.written.find(text); }
  const Vocabulary& symbols() const override { return bpe_.written; }
  bool append_symbol(std::string_view text, std::string& out) const override {
    out.append(text);
    return true;
  }
  void take_merge(const RankedMerge& merge) override;
  Status check_score(TokenId id, double score) const;
  TokenId symbol_of(std::string_view text);
  void add_splits(TokenId id, uint32_t rank);

  PieceSpec spec_;
  CharBpeModel bpe_;
  Display display_;
  CodePointMap loose_;
};

}  // namespace ibid
