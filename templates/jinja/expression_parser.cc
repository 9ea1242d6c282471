#include "templates/jinja/parser.h"

#include <algorithm>
#include <string_view>

#include "templates/jinja/builtins.h"
#include "templates/jinja/value.h"

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
    // Drop the filters and tests that are unknown: in a condition they fail only when they are evaluated.
    state_.unknown.forget_from(n_unknown);
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
  return tokens_.at_type(TokenType::kOutputEnd) || tokens_.at_type(TokenType::kBlockEnd) || tokens_.at_operator(")");
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

ExprPtr OperandParser::parse_primary(bool with_namespace) {
  const Token& token = tokens_.current();
  const int line = token.line;
  switch (token.type) {
    case TokenType::kName: return parse_name(with_namespace);
    case TokenType::kString: {
      std::string text;
      for (; tokens_.at_type(TokenType::kString); tokens_.next()) text += tokens_.current().text;
      return make_constant(Value::text(std::move(text)), line);
    }
    case TokenType::kInteger: tokens_.next(); return make_constant(Value::integer(token.integer), line);
    case TokenType::kFloat: tokens_.next(); return make_constant(Value::floating(token.number), line);
    default: break;
  }
  if (tokens_.skip_operator("(")) {
    ExpressionParser::TupleRules rules;
    rules.parentheses = true;
    ExprPtr node = expressions_.parse_tuple(rules);
    tokens_.expect_operator(")");
    return node;
  }
  if (tokens_.at_operator("[")) return parse_list();
  if (tokens_.at_operator("{")) return parse_dict();
  tokens_.fail_here("unexpected '" + describe(token) + "'");
}

ExprPtr OperandParser::parse_name(bool with_namespace) {
  const Token& token = tokens_.current();
  tokens_.next();
  const std::string& name = token.text;
  if (name == "true" || name == "True") return make_constant(Value::boolean(true), token.line);
  if (name == "false" || name == "False") return make_constant(Value::boolean(false), token.line);
  if (name == "none" || name == "None") return make_constant(Value::none(), token.line);
  const bool is_field = with_namespace && tokens_.at_operator(".");
  ExprPtr node = make_node(is_field ? ExprKind::kNamespaceField : ExprKind::kName, token.line);
  node->symbol = state_.symbols.intern(name);
  if (is_field) {
    tokens_.next();
    node->text = tokens_.expect_any_name();
  } else if (state_.macro != nullptr) {
    state_.macro->uses_caller |= name == "caller";
    state_.macro->uses_varargs |= name == "varargs";
    state_.macro->uses_kwargs |= name == "kwargs";
  }
  return node;
}

ExprPtr OperandParser::parse_list() {
  ExprPtr node = make_node(ExprKind::kList, tokens_.current().line);
  tokens_.expect_operator("[");
  while (!tokens_.at_operator("]")) {
    if (!node->children.empty()) tokens_.expect_operator(",");
    if (tokens_.at_operator("]")) break;
    adopt(*node, expressions_.parse_expression());
  }
  tokens_.expect_operator("]");
  return node;
}

ExprPtr OperandParser::parse_dict() {
  ExprPtr node = make_node(ExprKind::kDict, tokens_.current().line);
  tokens_.expect_operator("{");
  while (!tokens_.at_operator("}")) {
    if (!node->children.empty()) tokens_.expect_operator(",");
    if (tokens_.at_operator("}")) break;
    adopt(*node, expressions_.parse_expression());
    tokens_.expect_operator(":");
    adopt(*node, expressions_.parse_expression());
  }
  tokens_.expect_operator("}");
  return node;
}

ExprPtr OperandParser::parse_postfix(ExprPtr node) {
  for (;;) {
    if (tokens_.at_operator(".") || tokens_.at_operator("[")) {
      node = parse_subscript(std::move(node));
    } else if (tokens_.at_operator("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr OperandParser::parse_filters(ExprPtr node) {
  for (;;) {
    if (tokens_.skip_operator("|")) {
      node = parse_filter(std::move(node));
    } else if (tokens_.at_name("is")) {
      node = parse_test(std::move(node));
    } else if (tokens_.at_operator("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr OperandParser::parse_subscript(ExprPtr node) {
  const int line = tokens_.current().line;
  if (tokens_.skip_operator(".")) {
    const Token& name = tokens_.current();
    tokens_.next();
    if (name.type == TokenType::kName) {
      ExprPtr attribute = make_node(ExprKind::kAttribute, line, std::move(node));
      attribute->text = name.text;
      return attribute;
    }
    if (name.type != TokenType::kInteger) fail_syntax(name.line, "expected name or number");
    ExprPtr index = make_constant(Value::integer(name.integer), line);
    return make_binary(ExprKind::kSubscript, line, std::move(node), std::move(index));
  }
  tokens_.expect_operator("[");
  node = parse_subscribed(std::move(node));
  tokens_.expect_operator("]");
  return node;
}

ExprPtr OperandParser::parse_subscribed(ExprPtr node) {
  const int line = tokens_.current().line;
  ExprPtr first;
  if (!tokens_.at_operator(":")) {
    first = expressions_.parse_expression();
    if (tokens_.at_operator(",")) {
      ExprPtr tuple = make_node(ExprKind::kTuple, line, std::move(first));
      while (tokens_.skip_operator(",")) adopt(*tuple, expressions_.parse_expression());
      return make_binary(ExprKind::kSubscript, line, std::move(node), std::move(tuple));
    }
    if (!tokens_.at_operator(":")) {
      return make_binary(ExprKind::kSubscript, line, std::move(node), std::move(first));
    }
  }
  ExprPtr slice = make_node(ExprKind::kSlice, line, std::move(node));
  adopt(*slice, std::move(first));
  tokens_.expect_operator(":");
  const auto has_bound = [this] {
    return !tokens_.at_operator(":") && !tokens_.at_operator("]") && !tokens_.at_operator(",");
  };
  adopt(*slice, has_bound() ? expressions_.parse_expression() : nullptr);
  ExprPtr step;
  if (tokens_.skip_operator(":") && has_bound()) step = expressions_.parse_expression();
  adopt(*slice, std::move(step));
  return slice;
}

ExprPtr OperandParser::parse_filter(ExprPtr node) {
  ExprPtr filter = make_node(ExprKind::kFilter, tokens_.current().line);
  adopt(*filter, std::move(node));
  filter->text = tokens_.expect_any_name();
  while (tokens_.skip_operator(".")) filter->text += "." + tokens_.expect_any_name();
  filter->filter = find_filter(filter->text);
  if (filter->filter == nullptr) state_.unknown.add(filter->line, no_filter(filter->text));
  filter->args = std::make_unique<CallArguments>();
  if (tokens_.at_operator("(")) parse_call_arguments(*filter);
  return filter;
}

ExprPtr OperandParser::parse_test(ExprPtr node) {
  const int line = tokens_.current().line;
  tokens_.expect_name("is");
  const bool negated = tokens_.skip_name("not");
  ExprPtr test = make_node(ExprKind::kTest, line, std::move(node));
  test->text = tokens_.expect_any_name();
  while (tokens_.skip_operator(".")) test->text += "." + tokens_.expect_any_name();
  test->test = find_test(test->text);
  if (test->test == nullptr) state_.unknown.add(line, "No test named '" + test->text + "'.");
  test->args = std::make_unique<CallArguments>();
  const bool argument_follows = tokens_.at_type(TokenType::kName) || tokens_.at_type(TokenType::kString) ||
                                tokens_.at_type(TokenType::kInteger) || tokens_.at_type(TokenType::kFloat) ||
                                tokens_.at_operator("[") || tokens_.at_operator("{");
  if (tokens_.at_operator("(")) {
    parse_call_arguments(*test);
  } else if (argument_follows && !tokens_.at_name("else") && !tokens_.at_name("or") && !tokens_.at_name("and")) {
    if (tokens_.at_name("is")) tokens_.fail_here("You cannot chain multiple tests with is");
    ExprPtr argument = parse_postfix(parse_primary());
    test->height = std::max(test->height, argument->height + 1);
    check_height(*test);
    test->args->positional.push_back(std::move(argument));
  }
  if (!negated) return test;
  return make_node(ExprKind::kNot, line, std::move(test));
}

ExprPtr OperandParser::parse_call(ExprPtr node) {
  ExprPtr call = make_node(ExprKind::kCall, tokens_.current().line, std::move(node));
  call->args = std::make_unique<CallArguments>();
  parse_call_arguments(*call);
  return call;
}

void OperandParser::parse_call_arguments(Expr& call) {
  CallArguments& args = *call.args;
  const auto take = [&](bool allowed) {
    if (!allowed) tokens_.fail_here("invalid syntax for function call expression");
    ExprPtr value = expressions_.parse_expression();
    call.height = std::max(call.height, value->height + 1);
    return value;
  };
  tokens_.expect_operator("(");
  for (bool first = true; !tokens_.at_operator(")"); first = false) {
    if (!first) {
      tokens_.expect_operator(",");
      if (tokens_.at_operator(")")) break;
    }
    const bool nothing_unpacked = args.unpacked_list == nullptr && args.unpacked_dict == nullptr;
    if (tokens_.skip_operator("*")) {
      args.unpacked_list = take(nothing_unpacked);
    } else if (tokens_.skip_operator("**")) {
      args.unpacked_dict = take(args.unpacked_dict == nullptr);
    } else if (tokens_.at_type(TokenType::kName) && TokenStream::is_operator(tokens_.look(), "=")) {
      std::string name = tokens_.current().text;
      tokens_.next();
      tokens_.next();
      args.named.emplace_back(std::move(name), take(args.unpacked_dict == nullptr));
    } else {
      args.positional.push_back(take(nothing_unpacked && args.named.empty()));
    }
  }
  tokens_.expect_operator(")");
  check_height(call);
}

ExprPtr make_node(ExprKind kind, int line) {
  auto node = std::make_unique<Expr>();
  node->kind = kind;
  node->line = line;
  return node;
}

ExprPtr make_node(ExprKind kind, int line, ExprPtr child) {
  ExprPtr node = make_node(kind, line);
  adopt(*node, std::move(child));
  return node;
}

void adopt(Expr& parent, ExprPtr child) {
  if (child != nullptr) {
    parent.height = std::max(parent.height, child->height + 1);
    check_height(parent);
  }
  parent.children.push_back(std::move(child));
}

void check_height(const Expr& expr) {
  if (expr.height <= kMaxTreeHeight) return;
  fail_budget("template line " + std::to_string(expr.line) + ": an expression of more than " +
              std::to_string(kMaxTreeHeight) + " levels (budget: depth)");
}

ExprPtr make_binary(ExprKind kind, int line, ExprPtr left, ExprPtr right) {
  ExprPtr node = make_node(kind, line, std::move(left));
  adopt(*node, std::move(right));
  return node;
}

ExprPtr make_constant(Value value, int line) {
  ExprPtr node = make_node(ExprKind::kConstant, line);
  node->constant = std::move(value);
  return node;
}

namespace {

// True for Jinja's filters that use the render's context.
bool needs_context(std::string_view filter) {
  return filter == "map" || filter == "select" || filter == "reject" || filter == "selectattr" ||
         filter == "rejectattr";
}

// Calls visit() for an expression and all expressions below it, until a call returns false. Returns true if none did.
template <typename Visit>
bool visit_all(Expr& expr, const Visit& visit) {
  if (!visit(expr)) return false;
  for (const ExprPtr& child : expr.children) {
    if (child != nullptr && !visit_all(*child, visit)) return false;
  }
  if (expr.args == nullptr) return true;
  for (const ExprPtr& argument : expr.args->positional) {
    if (!visit_all(*argument, visit)) return false;
  }
  for (const auto& [name, argument] : expr.args->named) {
    if (!visit_all(*argument, visit)) return false;
  }
  for (const ExprPtr* unpacked : {&expr.args->unpacked_list, &expr.args->unpacked_dict}) {
    if (*unpacked != nullptr && !visit_all(**unpacked, visit)) return false;
  }
  return true;
}

}  // namespace

void note_constant_output(Expr& expr) {
  bool has_slice = false;
  const bool is_constant = visit_all(expr, [&has_slice](const Expr& part) {
    has_slice |= part.kind == ExprKind::kSlice;
    return part.kind != ExprKind::kName && part.kind != ExprKind::kNamespaceField && part.kind != ExprKind::kCall &&
           !(part.kind == ExprKind::kFilter && needs_context(part.text));
  });
  if (!is_constant || !has_slice) return;
  visit_all(expr, [](Expr& part) { return part.in_constant_output = true; });
}

}  // namespace ibid::jinja
