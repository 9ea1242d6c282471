// ByteLevelTokenizer: the tokenizers of GPT-2's family (SmolLM, Llama 3, Qwen, gpt-oss, ...): added tokens,
// normal form, pre-tokens, byte pair encoding, in this order.
//
// Built from a ByteLevelSpec, which the loaders fill. Immutable and thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary.h"

namespace ibid {

// What a tokenizer file says, checked: ids in range, texts distinct, merges resolved.
struct ByteLevelSpec {
  explicit ByteLevelSpec(size_t vocab_size) : vocabulary(vocab_size) {}

  Vocabulary vocabulary;  // bytes of every id; indexed: the model's tokens
  BpeModel bpe;           // is_control: of every added token with special=true
  std::vector<AddedToken> added;
  const PretokenizerFamily* pretokenizer = nullptr;
  bool nfc = false;
  Tokens prefix, suffix;  // what the post-processor puts around a text
  std::optional<TokenId> bos, eos;
  std::vector<TokenId> end_of_turn;
};

class ByteLevelTokenizer final : public Tokenizer {
 public:
  explicit ByteLevelTokenizer(ByteLevelSpec spec);
  ByteLevelTokenizer(const ByteLevelTokenizer&) = delete;  // parts point into one another
  ByteLevelTokenizer& operator=(const ByteLevelTokenizer&) = delete;

  size_t vocab_size() const override { return spec_.vocabulary.size(); }
  Tokens encode(std::string_view text, TextOrigin origin, bool add_special) const override;
  GrowingEncoding encode_growing(std::span<const OriginRun> runs, TextContext before) const override;
  std::string_view token_bytes(TokenId id) const override { return spec_.vocabulary.bytes(id); }
  std::string decode(TokenSpan ids) const override;
  bool is_special(TokenId id) const override;
  std::optional<TokenId> find_token(std::string_view text) const override;
  std::optional<TokenId> bos() const override { return spec_.bos; }
  std::optional<TokenId> eos() const override { return spec_.eos; }
  const std::vector<TokenId>& end_of_turn() const override { return spec_.end_of_turn; }

 private:
  class Walk;
  bool asks_for_words() const { return raw_added_.has_single_word() || normalized_added_.has_single_word(); }

  ByteLevelSpec spec_;
  std::vector<bool> special_;
  std::unordered_map<std::string, TokenId> added_ids_;
  Bpe bpe_;
  AddedTokenSet raw_added_;         // found before the normal form
  AddedTokenSet normalized_added_;  // found after it
};

}  // namespace ibid
