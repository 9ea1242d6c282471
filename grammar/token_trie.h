// TokenTrie and TokenTexts: the tokens of a model by their bytes, so that shared prefixes are walked once to find the
// allowed tokens. Immutable and thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ibid/token.h"

namespace ibid {

// The nodes in depth-first order (a node, then its descendants). Node 0 is the root.
struct TokenTrie {
  struct Node {
    uint32_t end;          // index after its last descendant
    uint32_t token_begin;  // index in `tokens`: those that end here, up to the next node's
    uint16_t depth;        // bytes up to and including this node
    uint8_t byte;
  };
  std::vector<Node> nodes;  // and a sentinel
  std::vector<TokenId> tokens;
  size_t max_length = 0;  // longest token in bytes

  size_t n_nodes() const { return nodes.size() - 1; }
};

class TokenTexts {
 public:
  // Longer tokens are few and looked up separately: a string near its maximum length then needs a special case for few
  // tokens only.
  static constexpr size_t kShortLength = 12;
  // Longer ones are never allowed.
  static constexpr size_t kMaxLength = 1000;

  struct Token {
    std::string bytes;        // empty: never allowed
    std::string first_bytes;  // bytes as the first token of an answer, if different
    bool special = false;     // allowed in free text only
  };
  // `tokens`: indexed by id. O(bytes log tokens).
  explicit TokenTexts(std::vector<Token> tokens);

  size_t size() const { return tokens_.size(); }
  std::string_view bytes(TokenId id) const { return token(id).bytes; }
  std::string_view first_bytes(TokenId id) const;
  size_t n_bytes() const { return n_bytes_; }

  // The ordinary tokens, split by length: up to kShortLength, and longer.
  const TokenTrie& short_tokens() const { return short_; }
  const TokenTrie& long_tokens() const { return long_; }
  const TokenTrie& special_tokens() const { return special_; }
  // All ordinary tokens with their bytes at the beginning of an answer; nullptr if these never differ.
  const TokenTrie* first_tokens() const { return first_.get(); }

  // The longest ordinary token that is a prefix of `text`; -1 if none.
  TokenId longest_prefix(std::string_view text) const;
  // The same for special tokens.
  TokenId longest_special_prefix(std::string_view text) const;

 private:
  const Token& token(TokenId id) const;

  std::vector<Token> tokens_;
  TokenTrie short_, long_, special_;
  std::unique_ptr<TokenTrie> first_;
  size_t n_bytes_ = 0;
};

}  // namespace ibid
