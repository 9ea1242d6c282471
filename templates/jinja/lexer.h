// Lexer: splits a template's source into tokens, with the settings for which chat templates are written: trim_blocks
// (removes the newline after a block tag), lstrip_blocks (removes white space before a block tag), and one newline at
// the end of the template is dropped. Follows Jinja 3.1 (jinja2/lexer.py).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ibid::jinja {

enum class TokenType : uint8_t {
  kData,
  kOutputBegin,
  kOutputEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenType type = TokenType::kEnd;
  int line = 1;
  std::string text;  // the token's text, depending on its type: data, a name, the value of a string, or an operator
  int64_t integer = 0;
  double number = 0;
};

// Throws Failure (kTemplateSyntax). The last token is kEnd.
std::vector<Token> tokenize(std::string_view source);

// Returns the name of a token for error messages: "end of statement block".
std::string describe(const Token& token);

// --- TokenStream: the tokens of one template in order, with one token of look-ahead. A missing token ends the parsing
// with Jinja's own message (Failure). Counts the nesting depth of rules, because recursive descent could overflow the
// stack: every rule that can contain itself holds a Nesting.

class TokenStream {
 public:
  // REQUIRES: the last token is kEnd.
  TokenStream(std::vector<Token> tokens, uint32_t max_depth) : tokens_(std::move(tokens)), max_depth_(max_depth) {}

  // One level of nesting, held for its scope; fails beyond max_depth.
  class Nesting {
   public:
    explicit Nesting(TokenStream& tokens);
    ~Nesting() { --tokens_.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    TokenStream& tokens_;
  };

  const Token& current() const { return tokens_[position_]; }
  // Returns the token after the current one.
  const Token& look() const { return tokens_[position_ + 1 < tokens_.size() ? position_ + 1 : position_]; }
  void next() {
    if (position_ + 1 < tokens_.size()) ++position_;
  }
  bool at_operator(std::string_view text) const { return is_operator(current(), text); }
  bool at_name(std::string_view text) const { return is_name(current(), text); }
  bool at_type(TokenType type) const { return current().type == type; }
  static bool is_operator(const Token& token, std::string_view text);
  static bool is_name(const Token& token, std::string_view text);

  // Skips the current token if it matches. Returns whether it did.
  bool skip_operator(std::string_view text);
  bool skip_name(std::string_view text);
  // As skip_operator(), but fails if the current token does not match.
  void expect_operator(std::string_view text);
  void expect_name(std::string_view text);
  std::string expect_any_name();
  void expect_type(TokenType type);
  [[noreturn]] void fail_here(const std::string& message) const;

 private:
  std::vector<Token> tokens_;
  size_t position_ = 0;
  uint32_t max_depth_;
  uint32_t depth_ = 0;
};

}  // namespace ibid::jinja
