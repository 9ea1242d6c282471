// TokenizerBuilder: checks the content of a tokenizer file part by part, and collects it into a PipelineSpec. Builders
// serve all families, and both kinds of file (GGUF and tokenizer.json); they read no files. Used by one loader at a
// time.
//
// A defect of single tokens does not reject the file: the tokenizer loads with a warning for each kind of defect. A
// token without text, or with the id of an earlier one, is never encoded; of several tokens with one text the first is
// encoded, and each is decoded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "tokenizer/models/bpe.h"
#include "tokenizer/models/vocabulary.h"
#include "tokenizer/pipeline_tokenizer.h"

namespace ibid {

struct VocabularyLimits {
  static constexpr size_t kMaxTokens = 4'000'000;
  static constexpr size_t kMaxMerges = 4'000'000;
  // Maximum bytes of a token as written in the file; the longest token of a known model has 512.
  static constexpr size_t kMaxTokenBytes = 16'384;
};

// A defect of single tokens. The tokenizer still loads, with a warning.
enum class TokenDefect : uint8_t { kNoText, kSameText, kSameId, kTooLongToFind, kWrongType, kUnknownType, kNoByte, kN };

// True for texts that end a turn in some model ("<|im_end|>"), except "</s>", which is also a tag of HTML.
bool is_turn_end(std::string_view text);
// True for texts that are written like control tokens: "<|user|>", "<start_of_turn>".
bool looks_like_control(std::string_view text);

class TokenizerBuilder {
 public:
  virtual ~TokenizerBuilder() = default;

  // Adds a token whose text is taken literally. It may have the id of a model token with the same text; encoding then
  // finds the added token first. Error: kBadVocab (longer than kMaxTokenBytes).
  Status add_added_token(AddedToken token);
  // Adds merges in the order of their ranks, after all previous merges. Both sides are written as in the vocabulary.
  // Errors: kBadMerge.
  Status add_merges(std::span<const TextMerge> merges);

  // Returns `id`. Error: kBadVocab if `id` is not in the vocabulary. `key`: the field from which `id` was read.
  Result<TokenId> checked_id(int64_t id, std::string_view key) const;
  // Returns `id`. If `id` is not in the vocabulary, adds a warning and returns nullopt. `key`: the field from which
  // `id` was read.
  std::optional<TokenId> usable_id(int64_t id, std::string_view key);
  std::optional<TokenId> find_text(std::string_view text) const;

  // Returns the byte that a text <0xHH> denotes; nullopt for other texts.
  static std::optional<uint8_t> parse_byte_token(std::string_view text);

  // The specification under construction. Loaders set those members that no function of the builder sets. finish()
  // completes end_of_turn.
  PipelineSpec& pipeline() { return *pipeline_; }
  virtual std::unique_ptr<Tokenizer> finish() = 0;

  Status error(ErrorCode code, const std::string& words) const { return {code, source_ + ": " + words}; }
  void warn(const std::string& words) { pipeline_->warnings.push_back(source_ + ": " + words); }
  // Notes a defect of one token. finish() writes one warning for all tokens with the same defect.
  void note(TokenDefect defect, TokenId id, std::string_view text);

 protected:
  // `source` names the file in error messages; `pipeline` must outlive the object.
  TokenizerBuilder(std::string source, PipelineSpec& pipeline) : source_(std::move(source)), pipeline_(&pipeline) {}

  // Returns the bytes that an added token is decoded to.
  virtual std::string decoded_bytes(std::string_view text) const = 0;
  virtual TokenId find_model_token(std::string_view text) const = 0;
  // symbols(): the vocabulary in which the texts of merges are found. append_symbol() appends one side of a merge in
  // the notation of symbols(); returns false if no token can have this text.
  virtual const Vocabulary& symbols() const = 0;
  virtual bool append_symbol(std::string_view text, std::string& out) const = 0;
  virtual void take_merge(const RankedMerge& merge) = 0;

  // Checks a token that is to be added. Returns false if it can never be encoded, because it has no text or its id is
  // taken. Error: kBadVocab (too long).
  Result<bool> begin_token(TokenId id, std::string_view text);
  // Registers a text that find_text() finds, although the model never produces the token `id`.
  void add_other_text(TokenId id, std::string_view text);
  // Adds the tokens whose texts are known to end turns to end_of_turn, and writes the warnings of note().
  void complete();

 private:
  static constexpr size_t kMergesTogether = 32;

  struct Noted {
    size_t n_tokens = 0;
    std::string first;  // id and text of the first token with the defect: "300 'F'"
  };

  Status add_few_merges(std::span<const TextMerge> merges);
  Status check_merge(const TextMerge& merge, TokenId left, TokenId right, TokenId result) const;

  std::string source_;
  PipelineSpec* pipeline_;
  size_t n_merges_ = 0;
  std::string sides_;                                     // scratch memory of add_few_merges
  std::unordered_map<std::string, TokenId> other_texts_;  // texts registered by add_other_text()
  std::array<Noted, static_cast<size_t>(TokenDefect::kN)> noted_;
};

// --- ByteLevelBuilder: checks a vocabulary that is written in the byte alphabet, and collects it into a
// ByteLevelSpec.

class ByteLevelBuilder final : public TokenizerBuilder {
 public:
  // `source` names the file in messages. REQUIRES: vocab_size <= VocabularyLimits::kMaxTokens.
  ByteLevelBuilder(std::string source, size_t vocab_size);

  // Adds a model token, written in the byte alphabet. A token that contains other characters can never be part of a
  // text. Error: kBadVocab (too long).
  Status add_model_token(TokenId id, std::string_view text);
  // Adds a token <0xHH>, which is decoded to the byte 0xHH and never encoded. If the text has another form, adds a
  // model token.
  Status add_byte_token(TokenId id, std::string_view text);

  bool lacks_bytes() const;

  ByteLevelSpec& spec() { return spec_; }
  std::unique_ptr<Tokenizer> finish() override;

 private:
  std::string decoded_bytes(std::string_view text) const override;
  TokenId find_model_token(std::string_view text) const override;
  const Vocabulary& symbols() const override { return spec_.vocabulary; }
  bool append_symbol(std::string_view text, std::string& out) const override;
  void take_merge(const RankedMerge& merge) override;

  ByteLevelSpec spec_;
  std::string bytes_;  // scratch memory of add_model_token
};

// --- PieceBuilder: checks a vocabulary that is written as text, as in SentencePiece, and collects it into a PieceSpec
// and a model over characters.

class PieceBuilder final : public TokenizerBuilder {
 public:
  // Longer tokens cannot have a score: the time to find their merges grows with the square of their length.
  static constexpr size_t kMaxScoredBytes = 512;

  // How a token's text is decoded.
  struct Display {
    std::vector<std::pair<std::string, std::string>> replacements;  // replacements in the text, applied in this order
    bool bytes = true;                                              // tokens <0xHH> are shown as the byte 0xHH
  };

  // `source` names the file in messages. REQUIRES: vocab_size <= VocabularyLimits::kMaxTokens.
  PieceBuilder(std::string source, size_t vocab_size, Display display);

  // Adds a token that the model can produce. Error: kBadVocab (too long).
  Status add_model_token(TokenId id, std::string_view text);
  // Adds a token that is decoded but never encoded. Error: kBadVocab (too long).
  Status add_shown_token(TokenId id, std::string_view text);
  // Adds a byte token <0xHH> that the model can produce. If the text has another form, adds a model token.
  Status add_byte_token(TokenId id, std::string_view text);
  // Sets a score for every token, in place of merges: of all adjacent pairs that spell a model token, the pair whose
  // token has the highest score merges first (the leftmost of equals). Errors: kBadVocab (a score that is not finite, a
  // token that is too long).
  Status add_scores(const std::vector<double>& scores);

  // Makes the model a Unigram with a score for every token. `unknown`: id of the unknown token, read from the key
  // `unknown_key`. Errors: kBadVocab (score not finite, id out of range or not of a model token).
  Status use_unigram(std::vector<double> scores, int64_t unknown, std::string_view unknown_key, bool byte_fallback);

  // Treats the model tokens written <0xHH> as byte tokens.
  void use_byte_tokens();
  bool lacks_bytes() const;

  // The model and the specification under construction. Loaders set those members that no function of the builder sets.
  CharBpeModel& bpe() { return bpe_; }
  PieceSpec& spec() { return spec_; }
  std::unique_ptr<Tokenizer> finish() override;

 private:
  std::string decoded_bytes(std::string_view text) const override;
  TokenId find_model_token(std::string_view text) const override { return bpe_.written.find(text); }
  const Vocabulary& symbols() const override { return bpe_.written; }
  bool append_symbol(std::string_view text, std::string& out) const override {
    out.append(text);
    return true;
  }
  void take_merge(const RankedMerge& merge) override;
  Status check_score(TokenId id, double score) const;
  // False for a token without text, and for a token with the text of an earlier one.
  bool is_found(TokenId id) const { return bpe_.written.is_indexed(id); }
  // A split of the text of token `id` into two sides. rank: rank of the token's score.
  struct Split {
    TextMerge sides;
    TokenId id;
    uint32_t rank;
  };
  TokenId symbol_of(std::string_view text, TokenId found);
  void append_splits(TokenId id, uint32_t rank, std::vector<Split>& splits) const;
  void add_splits(std::span<const Split> splits);

  PieceSpec spec_;
  CharBpeModel bpe_;
  Display display_;
  CodePointMap untokenized_;
};

}  // namespace ibid
