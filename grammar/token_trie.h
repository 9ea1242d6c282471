// TokenTrie and TokenTexts: the tokens of a model by their bytes, so that what a grammar allows is found by walking
// shared beginnings once. Immutable and thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ibid/token.h"

namespace ibid {

// The nodes in the order in which one meets them (a node, then what is below it). Node 0 is the root.
struct TokenTrie {
  struct Node {
    uint32_t end;          // behind the last node below this one
    uint32_t token_begin;  // in tokens: those that end here, up to the next node's
    uint16_t depth;        // bytes in front of and at this node
    uint8_t byte;
  };
  std::vector<Node> nodes;  // and one behind the last
  std::vector<TokenId> tokens;
  size_t max_length = 0;    // of a token, in bytes

  size_t n_nodes() const { return nodes.size() - 1; }
};

class TokenTexts {
 public:
  // Tokens beyond this length are few, and looked at apart: a string that must end within so many characters is then a
  // special case for few tokens.
  static constexpr size_t kShortLength = 12;
  // Longer ones are never allowed.
  static constexpr size_t kMaxLength = 1000;

  struct Token {
    std::string bytes;        // empty: never allowed
    std::string first_bytes;  // the same as the first token of an answer, where that differs
    bool special = false;     // allowed in free text only
  };
  // `tokens`: by id. O(bytes log tokens).
  explicit TokenTexts(std::vector<Token> tokens);

  size_t size() const { return tokens_.size(); }
  std::string_view bytes(TokenId id) const { return token(id).bytes; }
  std::string_view first_bytes(TokenId id) const;
  size_t n_bytes() const { return n_bytes_; }

  // The ordinary tokens, in two parts: up to kShortLength, and beyond.
  const TokenTrie& short_tokens() const { return short_; }
  const TokenTrie& long_tokens() const { return long_; }
  const TokenTrie& special_tokens() const { return special_; }
  // All that are no special tokens, as they are in front of an answer; nullptr: as everywhere else.
  const TokenTrie* first_tokens() const { return first_.get(); }

  // The longest token that is no special one and that `text` begins with; -1: none.
  TokenId longest_prefix(std::string_view text) const;
  // The longest special one.
  TokenId longest_special_prefix(std::string_view text) const;

 private:
  const Token& token(TokenId id) const;

  std::vector<Token> tokens_;
  TokenTrie short_, long_, special_;
  std::unique_ptr<TokenTrie> first_;
  size_t n_bytes_ = 0;
};

}  // namespace ibid
