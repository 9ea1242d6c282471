// FakeTokenizer: a small vocabulary with a simple encoding: from left to right, the longest known piece is used. Every
// byte is a token, so every text has an encoding. Some pieces are longer, so that different token sequences spell the
// same text, and appending text can change the last tokens.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace ibid {

class FakeTokenizer : public Tokenizer {
 public:
  // more_special: additional special tokens; those that end a turn are also in `ends`.
  explicit FakeTokenizer(const std::vector<std::string>& more_special = {}, const std::vector<std::string>& ends = {});
  // Has only 264 tokens, as the tiny checkpoints of the reference data do.
  static FakeTokenizer small();

  size_t vocab_size() const override { return pieces_.size(); }
  Tokens encode(std::string_view text, TextOrigin origin, bool add_special) const override;
  PartialEncoding encode_growing(const MarkedText& text, TextContext before) const override;
  std::string_view token_bytes(TokenId id) const override;
  std::string decode(TokenSpan ids) const override;
  bool is_special(TokenId id) const override { return id >= first_special_; }
  std::optional<TokenId> find_token(std::string_view text) const override;
  std::optional<TokenId> bos() const override { return std::nullopt; }
  std::optional<TokenId> eos() const override { return end_of_text; }
  const std::vector<TokenId>& end_of_turn() const override { return end_of_turn_; }
  void add_end_of_turn(TokenId id) override { end_of_turn_.push_back(id); }
  const std::vector<std::string>& warnings() const override { return warnings_; }

  // Returns the tokens of these pieces, which need not be the encoding of their text: sampled({"ab", "c"}).
  Tokens sampled(const std::vector<std::string>& pieces) const;
  Tokens template_ids(std::string_view text) const { return encode(text, TextOrigin::kTemplate, false); }

  TokenId im_start = 0, im_end = 0, end_of_text = 0;

 private:
  FakeTokenizer(const std::vector<std::string>& pieces, const std::vector<std::string>& more_special,
                const std::vector<std::string>& ends);

  std::vector<std::string> pieces_;
  TokenId first_special_ = 0;
  std::vector<TokenId> end_of_turn_;
  std::vector<std::string> warnings_;
};

}  // namespace ibid
