// Lexer: a template's source as tokens, in the environment that chat templates are written for:
// trim_blocks (the newline after a block tag goes), lstrip_blocks (white space before one goes), one newline
// at the very end dropped. Behaviour follows Jinja 3.1 (jinja2/lexer.py).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
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
  std::string text;  // data, name, the string's value, the operator
  int64_t integer = 0;
  double number = 0;
};

// Throws Failure (kTemplateSyntax). The last token is kEnd.
std::vector<Token> tokenize(std::string_view source);

// How an error message names a token: "end of statement block".
std::string describe(const Token& token);

}  // namespace ibid::jinja
