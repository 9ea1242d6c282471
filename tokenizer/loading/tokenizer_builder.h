// TokenizerBuilder: checks the content of a tokenizer file piece by piece, and collects it into a PipelineSpec. It
// is the part that all families and both kinds of file have in common, and reads neither kind itself. Used by one
// loader at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/result.h"
#include "tokenizer/models/merge_table.h"
#include "tokenizer/pipeline_tokenizer.h"

namespace ibid {

struct VocabularyLimits {
  static constexpr size_t kMaxTokens = 4'000'000;
  static constexpr size_t kMaxMerges = 4'000'000;
  static constexpr size_t kMaxTokenBytes = 16'384;  // as written; the longest known token has 512
};

class TokenizerBuilder {
 public:
  virtual ~TokenizerBuilder() = default;

  // A token whose text is itself. Its id may be a model token's of the same text.
  // Errors: kBadVocab (empty, too long, its text or id is there already).
  Status add_added_token(AddedToken token);
  // The next merges by rank, both sides as the vocabulary writes them. Errors: kBadMerge.
  Status add_merges(std::span<const TextMerge> merges);

  // Error: kBadVocab when `id` is not an id of the vocabulary. `key` names where it was read.
  Result<TokenId> checked_id(int64_t id, std::string_view key) const;
  std::optional<TokenId> find_text(std::string_view text) const;

  // What is not listed above is set directly. end_of_turn is completed by finish().
  PipelineSpec& pipeline() { return *pipeline_; }
  virtual std::unique_ptr<Tokenizer> finish() = 0;

  Status error(ErrorCode code, const std::string& words) const { return {code, source_ + ": " + words}; }

 protected:
  // `source` names the file in messages; `pipeline` must outlive the object.
  TokenizerBuilder(std::string source, PipelineSpec& pipeline)
      : source_(std::move(source)), pipeline_(&pipeline) {}

  // The bytes that an added token is shown as.
  virtual std::string shown(std::string_view text) const = 0;
  virtual TokenId find_model_token(std::string_view text) const = 0;
  // The tokens that merges are made of, and how they write a side of a merge: appends it, or is false where no token
  // can be it.
  virtual const Vocabulary& symbols() const = 0;
  virtual bool append_symbol(std::string_view text, std::string& out) const = 0;
  virtual void take_merge(const RankedMerge& merge) = 0;

  Status check_text(TokenId id, std::string_view text) const;
  Status check_free(TokenId id, std::string_view text) const;
  // The byte that <0xHH> names; nothing for other texts.
  static std::optional<uint8_t> parse_byte_token(std::string_view text);
  // The same where nothing else may stand. Error: kBadByteToken.
  Result<uint8_t> byte_of(TokenId id, std::string_view text) const;
  // Remembers a text that is found by find_text() and never made by the model. Error: kBadVocab.
  Status add_other_text(TokenId id, std::string_view text);
  // Adds to end_of_turn what is known to end a turn by its text.
  void complete_end_of_turn();

 private:
  static constexpr size_t kMergesTogether = 32;

  Status add_few_merges(std::span<const TextMerge> merges);
  Status check_merge(const TextMerge& merge, TokenId left, TokenId right, TokenId result) const;

  std::string source_;
  PipelineSpec* pipeline_;
  size_t n_merges_ = 0;
  std::string sides_;  // scratch of add_few_merges
  std::unordered_map<std::string, TokenId> other_texts_;  // of tokens that the model does not make
};

}  // namespace ibid
