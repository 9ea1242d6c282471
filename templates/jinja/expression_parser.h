// ExpressionParser: the operators of an expression, loosest first, and what is written where an expression
// may be: tuples, targets of assignments, chains of filters. Operands are OperandParser's.
#pragma once

#include <string_view>
#include <vector>

#include "templates/jinja/ast.h"
#include "templates/jinja/operand_parser.h"
#include "templates/jinja/parse_state.h"

namespace ibid::jinja {

class ExpressionParser {
 public:
  // `state` must outlive it.
  explicit ExpressionParser(ParseState& state) : state_(state), tokens_(state.tokens), operands_(state, *this) {}
  ExpressionParser(const ExpressionParser&) = delete;
  ExpressionParser& operator=(const ExpressionParser&) = delete;

  ExprPtr parse_expression(bool with_condition = true);
  // Expressions with commas between them; one without a comma is itself.
  struct TupleRules {
    bool simplified = false, with_condition = true, parentheses = false, with_namespace = false;
  };
  ExprPtr parse_tuple(const TupleRules& rules);
  // What can be assigned to: names and tuples of them; with_namespace: fields of namespaces too.
  ExprPtr parse_target(bool with_namespace);
  ExprPtr parse_single_target();
  // name(args) | name(args) ...
  std::vector<ExprPtr> parse_filter_chain();

 private:
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
  bool at_tuple_end() const;
  void check_target(const Expr& target) const;

  ParseState& state_;
  TokenStream& tokens_;
  OperandParser operands_;
};

}  // namespace ibid::jinja
