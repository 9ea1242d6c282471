// OperandParser: what stands between the operators of an expression. Literals, names, lists and dicts,
// brackets, and what follows an operand: subscripts, calls, filters and tests. What stands in brackets is an
// expression again; for that it asks its ExpressionParser.
#pragma once

#include "templates/jinja/ast.h"
#include "templates/jinja/parse_state.h"

namespace ibid::jinja {

class ExpressionParser;

class OperandParser {
 public:
  // Both must outlive it.
  OperandParser(ParseState& state, ExpressionParser& expressions)
      : state_(state), tokens_(state.tokens), expressions_(expressions) {}

  // with_namespace: a name with a field is the target of an assignment, not an attribute.
  ExprPtr parse_primary(bool with_namespace = false);
  // The subscripts and calls behind `node`, and the filters, tests and calls behind those.
  ExprPtr parse_postfix(ExprPtr node);
  ExprPtr parse_filters(ExprPtr node);
  // One filter, the bar in front of it read. `node` is nullptr in a filter block.
  ExprPtr parse_filter(ExprPtr node);

 private:
  ExprPtr parse_name(bool with_namespace);
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_subscript(ExprPtr node);
  ExprPtr parse_subscribed(ExprPtr node);
  ExprPtr parse_test(ExprPtr node);
  ExprPtr parse_call(ExprPtr node);
  void parse_call_arguments(Expr& call);

  ParseState& state_;
  TokenStream& tokens_;
  ExpressionParser& expressions_;
};

}  // namespace ibid::jinja
