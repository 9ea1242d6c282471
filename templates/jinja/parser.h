// Parser: tokens to syntax tree, after Jinja 3.1 (jinja2/parser.py), whose grammar is odd in places
// (`a ** b ** c` groups left, a test takes one argument without brackets) and is followed as it is.
//
// Recursive descent with a depth limit: every rule that can contain itself passes through Nesting.
// Throws Failure. parser_expressions.cc has the expressions, parser.cc the statements.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "templates/jinja/ast.h"
#include "templates/jinja/lexer.h"

namespace ibid::jinja {

class Parser {
 public:
  Parser(std::vector<Token> tokens, uint32_t max_depth);

  Body parse();
  std::vector<std::string> take_names() { return std::move(names_); }

 private:
  // One level of nesting; fails beyond max_depth.
  class Nesting {
   public:
    explicit Nesting(Parser& parser);
    ~Nesting() { --parser_.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    Parser& parser_;
  };
  // --- Tokens.
  const Token& current() const { return tokens_[position_]; }
  const Token& look() const { return tokens_[position_ + 1 < tokens_.size() ? position_ + 1 : position_]; }
  void next() {
    if (position_ + 1 < tokens_.size()) ++position_;
  }
  bool at_operator(std::string_view text) const { return is_operator(current(), text); }
  bool at_name(std::string_view text) const { return is_name(current(), text); }
  bool at_type(TokenType type) const { return current().type == type; }
  static bool is_operator(const Token& token, std::string_view text);
  static bool is_name(const Token& token, std::string_view text);
  bool skip_operator(std::string_view text);
  bool skip_name(std::string_view text);
  void expect_operator(std::string_view text);
  void expect_name(std::string_view text);
  std::string expect_any_name();
  void expect_type(TokenType type);
  [[noreturn]] void fail_here(const std::string& message) const;

  // --- Nodes.
  Symbol intern(const std::string& name);
  ExprPtr make(ExprKind kind, int line) const;
  ExprPtr make(ExprKind kind, int line, ExprPtr child) const;
  void adopt(Expr& parent, ExprPtr child) const;
  static void check_height(const Expr& expr);
  ExprPtr binary(ExprKind kind, int line, ExprPtr left, ExprPtr right) const;
  ExprPtr constant(Value value, int line) const;

  // --- Expressions.
  ExprPtr parse_expression(bool with_condition = true);
  ExprPtr parse_condition();
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filter = true);
  ExprPtr parse_primary(bool with_namespace = false);
  ExprPtr parse_name(bool with_namespace);
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_postfix(ExprPtr node);
  ExprPtr parse_filters(ExprPtr node);
  ExprPtr parse_subscript(ExprPtr node);
  ExprPtr parse_subscribed(ExprPtr node);
  ExprPtr parse_filter(ExprPtr node);
  ExprPtr parse_test(ExprPtr node);
  ExprPtr parse_call(ExprPtr node);
  void parse_call_arguments(Expr& call);
  struct TupleRules {
    bool simplified = false, with_condition = true, parentheses = false, with_namespace = false;
    std::string_view end_name;  // a name that ends it: "in", "recursive"
  };
  ExprPtr parse_tuple(const TupleRules& rules);
  bool at_tuple_end(const TupleRules& rules) const;
  ExprPtr parse_target(std::string_view end_name, bool with_namespace);
  void check_target(const Expr& target) const;

  // --- Statements.
  Body parse_body(std::initializer_list<std::string_view> ends);
  void parse_output(Body& body);
  StmtPtr parse_statement();
  StmtPtr parse_if();
  StmtPtr parse_for();
  StmtPtr parse_set();
  StmtPtr parse_macro();
  StmtPtr parse_call_block();
  StmtPtr parse_filter_block();
  StmtPtr parse_with();
  StmtPtr parse_generation();
  StmtPtr parse_loop_control();
  StmtPtr parse_unsupported();
  void parse_signature(MacroNode& macro);
  std::vector<ExprPtr> parse_filter_chain();
  // The body up to {% end %}, the end tag's name consumed.
  Body parse_block(std::string_view end);

  std::vector<Token> tokens_;
  size_t position_ = 0;
  uint32_t max_depth_;
  uint32_t depth_ = 0;
  int soft_ = 0;  // {% if %} around us: an unknown filter is an error only when it is reached
  std::vector<std::pair<int, std::string>> unknown_;  // filters and tests: line, message
  int loops_ = 0;                                     // loops around us, in this macro or call block
  MacroNode* macro_ = nullptr;
  std::vector<std::string> names_;
  std::unordered_map<std::string, Symbol> symbols_;
};

}  // namespace ibid::jinja
