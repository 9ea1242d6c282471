// The expressions of parser.h, loosest first.
#include "templates/jinja/failure.h"
#include "templates/jinja/filters.h"
#include "templates/jinja/parser.h"
#include "templates/jinja/test_functions.h"

namespace ibid::jinja {

ExprPtr Parser::parse_expression(bool with_condition) {
  const Nesting nesting(*this);
  return with_condition ? parse_condition() : parse_or();
}

ExprPtr Parser::parse_condition() {
  const int line = current().line;
  const size_t n_unknown = unknown_.size();
  ExprPtr then = parse_or();
  while (skip_name("if")) {
    ExprPtr node = make(ExprKind::kConditional, line);
    adopt(*node, parse_or());
    adopt(*node, std::move(then));
    if (skip_name("else")) {
      const Nesting nesting(*this);
      adopt(*node, parse_condition());
    } else {
      node->children.push_back(nullptr);
    }
    then = std::move(node);
    unknown_.resize(n_unknown);  // behind a condition they are errors only when reached
  }
  return then;
}

ExprPtr Parser::parse_or() {
  ExprPtr left = parse_and();
  for (int line = current().line; skip_name("or"); line = current().line) {
    left = binary(ExprKind::kOr, line, std::move(left), parse_and());
  }
  return left;
}

ExprPtr Parser::parse_and() {
  ExprPtr left = parse_not();
  for (int line = current().line; skip_name("and"); line = current().line) {
    left = binary(ExprKind::kAnd, line, std::move(left), parse_not());
  }
  return left;
}

ExprPtr Parser::parse_not() {
  const int line = current().line;
  if (!skip_name("not")) return parse_compare();
  const Nesting nesting(*this);
  return make(ExprKind::kNot, line, parse_not());
}

ExprPtr Parser::parse_compare() {
  static constexpr std::pair<std::string_view, CompareOp> kOperators[] = {
      {"==", CompareOp::kEq}, {"!=", CompareOp::kNe}, {"<", CompareOp::kLt},
      {"<=", CompareOp::kLe}, {">", CompareOp::kGt},  {">=", CompareOp::kGe}};
  const int line = current().line;
  ExprPtr first = parse_sum();
  ExprPtr node;
  for (;;) {
    const CompareOp* op = nullptr;
    for (const auto& [text, candidate] : kOperators) {
      if (at_operator(text)) op = &candidate;
    }
    static constexpr CompareOp kIn = CompareOp::kIn, kNotIn = CompareOp::kNotIn;
    if (op == nullptr && at_name("in")) op = &kIn;
    if (op == nullptr && at_name("not") && is_name(look(), "in")) {
      op = &kNotIn;
      next();
    }
    if (op == nullptr) break;
    next();
    if (node == nullptr) node = make(ExprKind::kCompare, line, std::move(first));
    node->compare_ops.push_back(*op);
    adopt(*node, parse_sum());
  }
  return node != nullptr ? std::move(node) : std::move(first);
}

ExprPtr Parser::parse_sum() {
  ExprPtr left = parse_concat();
  for (;;) {
    const int line = current().line;
    if (skip_operator("+")) {
      left = binary(ExprKind::kAdd, line, std::move(left), parse_concat());
    } else if (skip_operator("-")) {
      left = binary(ExprKind::kSub, line, std::move(left), parse_concat());
    } else {
      return left;
    }
  }
}

ExprPtr Parser::parse_concat() {
  const int line = current().line;
  ExprPtr first = parse_product();
  if (!at_operator("~")) return first;
  ExprPtr node = make(ExprKind::kConcat, line, std::move(first));
  while (skip_operator("~")) adopt(*node, parse_product());
  return node;
}

ExprPtr Parser::parse_product() {
  static constexpr std::pair<std::string_view, ExprKind> kOperators[] = {
      {"*", ExprKind::kMul}, {"/", ExprKind::kDiv}, {"//", ExprKind::kFloorDiv}, {"%", ExprKind::kMod}};
  ExprPtr left = parse_power();
  for (;;) {
    const int line = current().line;
    const std::pair<std::string_view, ExprKind>* found = nullptr;
    for (const auto& entry : kOperators) {
      if (at_operator(entry.first)) found = &entry;
    }
    if (found == nullptr) return left;
    next();
    left = binary(found->second, line, std::move(left), parse_power());
  }
}

ExprPtr Parser::parse_power() {
  ExprPtr left = parse_unary();
  for (int line = current().line; skip_operator("**"); line = current().line) {
    left = binary(ExprKind::kPow, line, std::move(left), parse_unary());
  }
  return left;
}

ExprPtr Parser::parse_unary(bool with_filter) {
  const Nesting nesting(*this);
  const int line = current().line;
  ExprPtr node;
  if (skip_operator("-")) {
    node = make(ExprKind::kNegative, line, parse_unary(false));
  } else if (skip_operator("+")) {
    node = make(ExprKind::kPositive, line, parse_unary(false));
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return with_filter ? parse_filters(std::move(node)) : std::move(node);
}

ExprPtr Parser::parse_primary(bool with_namespace) {
  const Token& token = current();
  const int line = token.line;
  switch (token.type) {
    case TokenType::kName: return parse_name(with_namespace);
    case TokenType::kString: {
      std::string text;
      for (; at_type(TokenType::kString); next()) text += current().text;
      return constant(Value::text(std::move(text)), line);
    }
    case TokenType::kInteger: next(); return constant(Value::integer(token.integer), line);
    case TokenType::kFloat: next(); return constant(Value::floating(token.number), line);
    default: break;
  }
  if (skip_operator("(")) {
    TupleRules rules;
    rules.parentheses = true;
    ExprPtr node = parse_tuple(rules);
    expect_operator(")");
    return node;
  }
  if (at_operator("[")) return parse_list();
  if (at_operator("{")) return parse_dict();
  fail_here("unexpected '" + describe(token) + "'");
}

ExprPtr Parser::parse_name(bool with_namespace) {
  const Token& token = current();
  next();
  const std::string& name = token.text;
  if (name == "true" || name == "True") return constant(Value::boolean(true), token.line);
  if (name == "false" || name == "False") return constant(Value::boolean(false), token.line);
  if (name == "none" || name == "None") return constant(Value::none(), token.line);
  const bool is_field = with_namespace && at_operator(".");
  ExprPtr node = make(is_field ? ExprKind::kNamespaceField : ExprKind::kName, token.line);
  node->symbol = intern(name);
  if (is_field) {
    next();
    node->text = expect_any_name();
  } else if (macro_ != nullptr) {
    macro_->uses_caller |= name == "caller";
    macro_->uses_varargs |= name == "varargs";
    macro_->uses_kwargs |= name == "kwargs";
  }
  return node;
}

ExprPtr Parser::parse_list() {
  ExprPtr node = make(ExprKind::kList, current().line);
  expect_operator("[");
  while (!at_operator("]")) {
    if (!node->children.empty()) expect_operator(",");
    if (at_operator("]")) break;
    adopt(*node, parse_expression());
  }
  expect_operator("]");
  return node;
}

ExprPtr Parser::parse_dict() {
  ExprPtr node = make(ExprKind::kDict, current().line);
  expect_operator("{");
  while (!at_operator("}")) {
    if (!node->children.empty()) expect_operator(",");
    if (at_operator("}")) break;
    adopt(*node, parse_expression());
    expect_operator(":");
    adopt(*node, parse_expression());
  }
  expect_operator("}");
  return node;
}

ExprPtr Parser::parse_postfix(ExprPtr node) {
  for (;;) {
    if (at_operator(".") || at_operator("[")) {
      node = parse_subscript(std::move(node));
    } else if (at_operator("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr Parser::parse_filters(ExprPtr node) {
  for (;;) {
    if (skip_operator("|")) {
      node = parse_filter(std::move(node));
    } else if (at_name("is")) {
      node = parse_test(std::move(node));
    } else if (at_operator("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr Parser::parse_subscript(ExprPtr node) {
  const int line = current().line;
  if (skip_operator(".")) {
    const Token& name = current();
    next();
    if (name.type == TokenType::kName) {
      ExprPtr attribute = make(ExprKind::kAttribute, line, std::move(node));
      attribute->text = name.text;
      return attribute;
    }
    if (name.type != TokenType::kInteger) fail_syntax(name.line, "expected name or number");
    return binary(ExprKind::kSubscript, line, std::move(node), constant(Value::integer(name.integer), line));
  }
  expect_operator("[");
  node = parse_subscribed(std::move(node));
  expect_operator("]");
  return node;
}

ExprPtr Parser::parse_subscribed(ExprPtr node) {
  const int line = current().line;
  ExprPtr first;
  if (!at_operator(":")) {
    first = parse_expression();
    if (at_operator(",")) {
      ExprPtr tuple = make(ExprKind::kTuple, line, std::move(first));
      while (skip_operator(",")) adopt(*tuple, parse_expression());
      return binary(ExprKind::kSubscript, line, std::move(node), std::move(tuple));
    }
    if (!at_operator(":")) return binary(ExprKind::kSubscript, line, std::move(node), std::move(first));
  }
  ExprPtr slice = make(ExprKind::kSlice, line, std::move(node));
  adopt(*slice, std::move(first));
  expect_operator(":");
  const auto has_bound = [this] { return !at_operator(":") && !at_operator("]") && !at_operator(","); };
  adopt(*slice, has_bound() ? parse_expression() : nullptr);
  ExprPtr step;
  if (skip_operator(":") && has_bound()) step = parse_expression();
  adopt(*slice, std::move(step));
  return slice;
}

ExprPtr Parser::parse_filter(ExprPtr node) {
  ExprPtr filter = make(ExprKind::kFilter, current().line);
  adopt(*filter, std::move(node));
  filter->text = expect_any_name();
  while (skip_operator(".")) filter->text += "." + expect_any_name();
  filter->filter = find_filter(filter->text);
  if (filter->filter == nullptr && soft_ == 0) {
    unknown_.emplace_back(filter->line, "No filter named '" + filter->text + "'.");
  }
  filter->args = std::make_unique<CallArguments>();
  if (at_operator("(")) parse_call_arguments(*filter);
  return filter;
}

ExprPtr Parser::parse_test(ExprPtr node) {
  const int line = current().line;
  expect_name("is");
  const bool negated = skip_name("not");
  ExprPtr test = make(ExprKind::kTest, line, std::move(node));
  test->text = expect_any_name();
  while (skip_operator(".")) test->text += "." + expect_any_name();
  test->test = find_test(test->text);
  if (test->test == nullptr && soft_ == 0) unknown_.emplace_back(line, "No test named '" + test->text + "'.");
  test->args = std::make_unique<CallArguments>();
  const bool argument_follows = at_type(TokenType::kName) || at_type(TokenType::kString) ||
                                at_type(TokenType::kInteger) || at_type(TokenType::kFloat) ||
                                at_operator("[") || at_operator("{");
  if (at_operator("(")) {
    parse_call_arguments(*test);
  } else if (argument_follows && !at_name("else") && !at_name("or") && !at_name("and")) {
    if (at_name("is")) fail_here("You cannot chain multiple tests with is");
    ExprPtr argument = parse_postfix(parse_primary());
    test->height = std::max(test->height, argument->height + 1);
    check_height(*test);
    test->args->positional.push_back(std::move(argument));
  }
  if (!negated) return test;
  return make(ExprKind::kNot, line, std::move(test));
}

ExprPtr Parser::parse_call(ExprPtr node) {
  ExprPtr call = make(ExprKind::kCall, current().line, std::move(node));
  call->args = std::make_unique<CallArguments>();
  parse_call_arguments(*call);
  return call;
}

void Parser::parse_call_arguments(Expr& call) {
  CallArguments& args = *call.args;
  const auto take = [&](bool allowed) {
    if (!allowed) fail_here("invalid syntax for function call expression");
    ExprPtr value = parse_expression();
    call.height = std::max(call.height, value->height + 1);
    return value;
  };
  expect_operator("(");
  for (bool first = true; !at_operator(")"); first = false) {
    if (!first) {
      expect_operator(",");
      if (at_operator(")")) break;
    }
    const bool nothing_unpacked = args.unpacked_list == nullptr && args.unpacked_dict == nullptr;
    if (skip_operator("*")) {
      args.unpacked_list = take(nothing_unpacked);
    } else if (skip_operator("**")) {
      args.unpacked_dict = take(args.unpacked_dict == nullptr);
    } else if (at_type(TokenType::kName) && is_operator(look(), "=")) {
      std::string name = current().text;
      next();
      next();
      args.named.emplace_back(std::move(name), take(args.unpacked_dict == nullptr));
    } else {
      args.positional.push_back(take(nothing_unpacked && args.named.empty()));
    }
  }
  expect_operator(")");
  check_height(call);
}

bool Parser::at_tuple_end(const TupleRules& rules) const {
  return at_type(TokenType::kOutputEnd) || at_type(TokenType::kBlockEnd) || at_operator(")") ||
         (!rules.end_name.empty() && at_name(rules.end_name));
}

ExprPtr Parser::parse_tuple(const TupleRules& rules) {
  const Nesting nesting(*this);
  const int line = current().line;
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  for (;;) {
    if (!items.empty()) expect_operator(",");
    if (at_tuple_end(rules)) break;
    items.push_back(rules.simplified ? parse_primary(rules.with_namespace)
                                     : parse_expression(rules.with_condition));
    if (!at_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!items.empty()) return std::move(items[0]);
    if (!rules.parentheses) fail_here("Expected an expression, got '" + describe(current()) + "'");
  }
  ExprPtr node = make(ExprKind::kTuple, line);
  for (ExprPtr& item : items) adopt(*node, std::move(item));
  return node;
}

}  // namespace ibid::jinja
