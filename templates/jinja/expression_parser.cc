#include "templates/jinja/expression_parser.h"

#include "templates/jinja/failure.h"
#include "templates/jinja/nodes.h"

namespace ibid::jinja {

ExprPtr ExpressionParser::parse_expression(bool with_condition) {
  const TokenStream::Nesting nesting(tokens_);
  return with_condition ? parse_condition() : parse_or();
}

ExprPtr ExpressionParser::parse_condition() {
  const int line = tokens_.current().line;
  const size_t n_unknown = state_.unknown.size();
  ExprPtr then = parse_or();
  while (tokens_.skip_name("if")) {
    ExprPtr node = make_node(ExprKind::kConditional, line);
    adopt(*node, parse_or());
    adopt(*node, std::move(then));
    if (tokens_.skip_name("else")) {
      const TokenStream::Nesting nesting(tokens_);
      adopt(*node, parse_condition());
    } else {
      node->children.push_back(nullptr);
    }
    then = std::move(node);
    state_.unknown.forget_from(n_unknown);  // behind a condition they are errors only when reached
  }
  return then;
}

ExprPtr ExpressionParser::parse_or() {
  ExprPtr left = parse_and();
  for (int line = tokens_.current().line; tokens_.skip_name("or"); line = tokens_.current().line) {
    left = make_binary(ExprKind::kOr, line, std::move(left), parse_and());
  }
  return left;
}

ExprPtr ExpressionParser::parse_and() {
  ExprPtr left = parse_not();
  for (int line = tokens_.current().line; tokens_.skip_name("and"); line = tokens_.current().line) {
    left = make_binary(ExprKind::kAnd, line, std::move(left), parse_not());
  }
  return left;
}

ExprPtr ExpressionParser::parse_not() {
  const int line = tokens_.current().line;
  if (!tokens_.skip_name("not")) return parse_compare();
  const TokenStream::Nesting nesting(tokens_);
  return make_node(ExprKind::kNot, line, parse_not());
}

ExprPtr ExpressionParser::parse_compare() {
  static constexpr std::pair<std::string_view, CompareOp> kOperators[] = {
      {"==", CompareOp::kEq}, {"!=", CompareOp::kNe}, {"<", CompareOp::kLt},
      {"<=", CompareOp::kLe}, {">", CompareOp::kGt},  {">=", CompareOp::kGe}};
  const int line = tokens_.current().line;
  ExprPtr first = parse_sum();
  ExprPtr node;
  for (;;) {
    const CompareOp* op = nullptr;
    for (const auto& [text, candidate] : kOperators) {
      if (tokens_.at_operator(text)) op = &candidate;
    }
    static constexpr CompareOp kIn = CompareOp::kIn, kNotIn = CompareOp::kNotIn;
    if (op == nullptr && tokens_.at_name("in")) op = &kIn;
    if (op == nullptr && tokens_.at_name("not") && TokenStream::is_name(tokens_.look(), "in")) {
      op = &kNotIn;
      tokens_.next();
    }
    if (op == nullptr) break;
    tokens_.next();
    if (node == nullptr) node = make_node(ExprKind::kCompare, line, std::move(first));
    node->compare_ops.push_back(*op);
    adopt(*node, parse_sum());
  }
  return node != nullptr ? std::move(node) : std::move(first);
}

ExprPtr ExpressionParser::parse_sum() {
  ExprPtr left = parse_concat();
  for (;;) {
    const int line = tokens_.current().line;
    if (tokens_.skip_operator("+")) {
      left = make_binary(ExprKind::kAdd, line, std::move(left), parse_concat());
    } else if (tokens_.skip_operator("-")) {
      left = make_binary(ExprKind::kSub, line, std::move(left), parse_concat());
    } else {
      return left;
    }
  }
}

ExprPtr ExpressionParser::parse_concat() {
  const int line = tokens_.current().line;
  ExprPtr first = parse_product();
  if (!tokens_.at_operator("~")) return first;
  ExprPtr node = make_node(ExprKind::kConcat, line, std::move(first));
  while (tokens_.skip_operator("~")) adopt(*node, parse_product());
  return node;
}

ExprPtr ExpressionParser::parse_product() {
  static constexpr std::pair<std::string_view, ExprKind> kOperators[] = {
      {"*", ExprKind::kMul}, {"/", ExprKind::kDiv}, {"//", ExprKind::kFloorDiv}, {"%", ExprKind::kMod}};
  ExprPtr left = parse_power();
  for (;;) {
    const int line = tokens_.current().line;
    const std::pair<std::string_view, ExprKind>* found = nullptr;
    for (const auto& entry : kOperators) {
      if (tokens_.at_operator(entry.first)) found = &entry;
    }
    if (found == nullptr) return left;
    tokens_.next();
    left = make_binary(found->second, line, std::move(left), parse_power());
  }
}

ExprPtr ExpressionParser::parse_power() {
  ExprPtr left = parse_unary();
  for (int line = tokens_.current().line; tokens_.skip_operator("**"); line = tokens_.current().line) {
    left = make_binary(ExprKind::kPow, line, std::move(left), parse_unary());
  }
  return left;
}

ExprPtr ExpressionParser::parse_unary(bool with_filter) {
  const TokenStream::Nesting nesting(tokens_);
  const int line = tokens_.current().line;
  ExprPtr node;
  if (tokens_.skip_operator("-")) {
    node = make_node(ExprKind::kNegative, line, parse_unary(false));
  } else if (tokens_.skip_operator("+")) {
    node = make_node(ExprKind::kPositive, line, parse_unary(false));
  } else {
    node = operands_.parse_primary();
  }
  node = operands_.parse_postfix(std::move(node));
  return with_filter ? operands_.parse_filters(std::move(node)) : std::move(node);
}

ExprPtr ExpressionParser::parse_tuple(const TupleRules& rules) {
  const TokenStream::Nesting nesting(tokens_);
  const int line = tokens_.current().line;
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  for (;;) {
    if (!items.empty()) tokens_.expect_operator(",");
    if (at_tuple_end()) break;
    items.push_back(rules.simplified ? operands_.parse_primary(rules.with_namespace)
                                     : parse_expression(rules.with_condition));
    if (!tokens_.at_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!items.empty()) return std::move(items[0]);
    if (!rules.parentheses) {
      tokens_.fail_here("Expected an expression, got '" + describe(tokens_.current()) + "'");
    }
  }
  ExprPtr node = make_node(ExprKind::kTuple, line);
  for (ExprPtr& item : items) adopt(*node, std::move(item));
  return node;
}

bool ExpressionParser::at_tuple_end() const {
  return tokens_.at_type(TokenType::kOutputEnd) || tokens_.at_type(TokenType::kBlockEnd) ||
         tokens_.at_operator(")");
}

ExprPtr ExpressionParser::parse_target(bool with_namespace) {
  TupleRules rules;
  rules.simplified = true;
  rules.with_namespace = with_namespace;
  ExprPtr target = parse_tuple(rules);
  check_target(*target);
  return target;
}

ExprPtr ExpressionParser::parse_single_target() {
  ExprPtr target = operands_.parse_primary();
  check_target(*target);
  return target;
}

void ExpressionParser::check_target(const Expr& target) const {
  if (target.kind == ExprKind::kName || target.kind == ExprKind::kNamespaceField) return;
  if (target.kind != ExprKind::kTuple) fail_syntax(target.line, "can't assign to an expression");
  for (const ExprPtr& child : target.children) check_target(*child);
}

std::vector<ExprPtr> ExpressionParser::parse_filter_chain() {
  std::vector<ExprPtr> filters;
  do {
    filters.push_back(operands_.parse_filter(nullptr));
  } while (tokens_.skip_operator("|"));
  return filters;
}

}  // namespace ibid::jinja
