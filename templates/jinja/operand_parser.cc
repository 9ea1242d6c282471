#include "templates/jinja/operand_parser.h"

#include <algorithm>

#include "templates/jinja/expression_parser.h"
#include "templates/jinja/failure.h"
#include "templates/jinja/filters.h"
#include "templates/jinja/nodes.h"
#include "templates/jinja/test_functions.h"

namespace ibid::jinja {

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
  } else if (argument_follows && !tokens_.at_name("else") && !tokens_.at_name("or") &&
             !tokens_.at_name("and")) {
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

}  // namespace ibid::jinja
