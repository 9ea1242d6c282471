#include "templates/jinja/token_stream.h"

#include "templates/jinja/failure.h"

namespace ibid::jinja {

TokenStream::Nesting::Nesting(TokenStream& tokens) : tokens_(tokens) {
  // A parenthesis passes through several rules that count.
  if (++tokens.depth_ > 4 * tokens.max_depth_) {
    fail_budget("template line " + std::to_string(tokens.current().line) + ": nested deeper than " +
                std::to_string(tokens.max_depth_) + " (budget: depth)");
  }
}

bool TokenStream::is_operator(const Token& token, std::string_view text) {
  return token.type == TokenType::kOperator && token.text == text;
}

bool TokenStream::is_name(const Token& token, std::string_view text) {
  return token.type == TokenType::kName && token.text == text;
}

bool TokenStream::skip_operator(std::string_view text) {
  if (!at_operator(text)) return false;
  next();
  return true;
}

bool TokenStream::skip_name(std::string_view text) {
  if (!at_name(text)) return false;
  next();
  return true;
}

void TokenStream::expect_operator(std::string_view text) {
  if (!skip_operator(text))
    fail_here("expected token '" + std::string(text) + "', got '" + describe(current()) + "'");
}

void TokenStream::expect_name(std::string_view text) {
  if (!skip_name(text))
    fail_here("expected token '" + std::string(text) + "', got '" + describe(current()) + "'");
}

std::string TokenStream::expect_any_name() {
  if (!at_type(TokenType::kName)) fail_here("expected token 'name', got '" + describe(current()) + "'");
  std::string name = current().text;
  next();
  return name;
}

void TokenStream::expect_type(TokenType type) {
  if (!at_type(type)) {
    Token wanted;
    wanted.type = type;
    fail_here("expected token '" + describe(wanted) + "', got '" + describe(current()) + "'");
  }
  next();
}

void TokenStream::fail_here(const std::string& message) const { fail_syntax(current().line, message); }

}  // namespace ibid::jinja
