// TokenTrie and TokenTexts: the tokens of a model by their bytes, so that a search for the allowed tokens visits shared
// prefixes once. Immutable and thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unicode/code_point_set.h"
#include "ibid/token.h"

namespace ibid {

// A set of classes of bytes, one bit each. Bytes that most grammars allow together are in one class.
using ByteClasses = uint32_t;
inline constexpr ByteClasses kMultiByteClass = 1u << 30;  // bytes of multi-byte characters, whole or cut at the end
inline constexpr ByteClasses kBrokenClass = 1u << 31;     // bytes that are not UTF-8
// Returns the class of an ASCII byte: a bit below kMultiByteClass.
ByteClasses byte_class(uint8_t byte);
// The UTF-8 byte sequences of all characters of several bytes.
const std::vector<ByteSequence>& multi_byte_sequences();

// A trie of tokens by their bytes: its nodes in depth-first order (a node, then its descendants). Node 0 is the root.
struct TokenTrie {
  struct Node {
    uint32_t end;          // index of the first node that is not a descendant of this node
    uint32_t token_begin;  // the tokens that end here are tokens[token_begin] up to the next node's token_begin
    ByteClasses below;  // classes of the bytes of all descendants; with kBrokenClass if a character is incomplete here
    uint16_t depth;     // number of bytes up to and including this node
    uint8_t byte;
  };
  std::vector<Node> nodes;  // the last node is a sentinel, which has no token
  std::vector<TokenId> tokens;
  size_t max_length = 0;  // longest token in bytes

  size_t n_nodes() const { return nodes.size() - 1; }
};

class TokenTexts {
 public:
  // Maximum bytes of short tokens. The few longer tokens are in a trie of their own. So if a string has a maximum
  // length, the tokens of the short trie depend on it only within this number of bytes before its end.
  static constexpr size_t kShortLength = 12;
  // Maximum bytes of a token; longer tokens are never allowed.
  static constexpr size_t kMaxLength = 1000;

  struct Token {
    std::string bytes;        // the token's text; empty: the token is never allowed
    std::string first_bytes;  // the token's bytes as the first token of an answer, if they differ from `bytes`
    bool special = false;     // allowed only in free text (Grammar::Parts::special_tokens_in_first_rule)
  };
  // tokens: indexed by token id. O(bytes log tokens).
  explicit TokenTexts(std::vector<Token> tokens);

  size_t size() const { return tokens_.size(); }
  std::string_view bytes(TokenId id) const { return token(id).bytes; }
  std::string_view first_bytes(TokenId id) const;
  bool is_special(TokenId id) const { return token(id).special; }
  size_t n_bytes() const { return n_bytes_; }
  // Finds a token by its id, written "<[123]>", or by its text, "<think>". Error: kInvalidArgument, with the reference,
  // if there is no such token or it has no text.
  Result<TokenId> find(std::string_view reference) const;

  // short_tokens(): trie of the ordinary tokens of up to kShortLength bytes; long_tokens(): trie of the longer ones.
  const TokenTrie& short_tokens() const { return short_; }
  const TokenTrie& long_tokens() const { return long_; }
  const TokenTrie& special_tokens() const { return special_; }
  // Trie of all ordinary tokens by the bytes to which they decode as the first token of an answer (some tokenizers drop
  // a leading space there); nullptr if every token decodes to the same bytes at every place.
  const TokenTrie* first_tokens() const { return first_.get(); }

  // Returns the longest ordinary token whose bytes are a prefix of `text`; -1 if no token is.
  TokenId longest_prefix(std::string_view text) const;
  // As longest_prefix(), but among special tokens.
  TokenId longest_special_prefix(std::string_view text) const;

 private:
  const Token& token(TokenId id) const;

  std::vector<Token> tokens_;
  TokenTrie short_, long_, special_;
  std::unique_ptr<TokenTrie> first_;
  size_t n_bytes_ = 0;
};

}  // namespace ibid
