// Parser: tokens to syntax tree, after Jinja 3.1 (jinja2/parser.py), whose grammar is odd in places
// (`a ** b ** c` groups left, a test takes one argument without brackets) and is followed as it is.
//
// Recursive descent in three classes: this one reads statements, ExpressionParser operators, OperandParser
// what stands between them. Throws Failure. Used once.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "templates/jinja/ast.h"
#include "templates/jinja/expression_parser.h"

namespace ibid::jinja {

class Parser {
 public:
  Parser(std::vector<Token> tokens, uint32_t max_depth);

  Body parse();
  std::vector<std::string> take_names() { return state_.symbols.take_names(); }

 private:
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
  // The body up to {% end %}, the end tag's name consumed.
  Body parse_block(std::string_view end);

  ParseState state_;
  TokenStream& tokens_;
  ExpressionParser expressions_;
  void check_loop_name(const Expr& target) const;

  int loops_ = 0;  // loops around us, in this macro or call block
  int fors_ = 0;   // {% for %} that are not at their end
};

}  // namespace ibid::jinja
