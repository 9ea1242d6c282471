// ByteLevelBuilder: checks what a tokenizer file says, piece by piece, and collects it into a ByteLevelSpec.
// What GGUF and tokenizer.json have in common; it reads neither. Used by one loader at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/result.h"
#include "tokenizer/byte_level_tokenizer.h"

namespace ibid {

struct VocabularyLimits {
  static constexpr size_t kMaxTokens = 4'000'000;
  static constexpr size_t kMaxMerges = 4'000'000;
  static constexpr size_t kMaxTokenBytes = 16'384;  // as written; the longest known token has 512
};

class ByteLevelBuilder {
 public:
  // `source` names the file in messages. REQUIRES: vocab_size <= VocabularyLimits::kMaxTokens.
  ByteLevelBuilder(std::string source, size_t vocab_size);

  // A token of the model, written in the byte alphabet; one with other characters can never be part of a
  // text. Errors: kBadVocab (empty, too long, its text or id is there already).
  Status add_model_token(TokenId id, std::string_view text);
  // A token whose text is itself. Its id may be a model token's of the same text.
  // Errors: kBadVocab (as above, or longer than added tokens may be).
  Status add_added_token(AddedToken token);
  // A token that stands for one byte, written <0xHH>: shown, never produced. Error: kBadByteToken.
  Status add_byte_token(TokenId id, std::string_view text);
  // The next merge by rank, both sides written in the byte alphabet. Errors: kBadMerge.
  Status add_merge(std::string_view left, std::string_view right);

  // Error: kBadVocab when `id` is not an id of the vocabulary. `key` names where it was read.
  Result<TokenId> checked_id(int64_t id, std::string_view key) const;
  std::optional<TokenId> find_text(std::string_view text) const;
  bool lacks_bytes() const;

  // Everything else is set directly. end_of_turn is completed by finish().
  ByteLevelSpec& spec() { return spec_; }
  std::unique_ptr<Tokenizer> finish();

  Status error(ErrorCode code, const std::string& words) const { return {code, source_ + ": " + words}; }

 private:
  Status check_text(TokenId id, std::string_view text) const;
  Status unknown_in_merge(std::string_view left, std::string_view right, std::string_view missing) const;

  std::string source_;
  ByteLevelSpec spec_;
  std::unordered_map<std::string, TokenId> other_texts_;  // of tokens that are not indexed
  std::string merged_;                                    // scratch of add_merge
};

}  // namespace ibid
