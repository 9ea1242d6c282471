#include "templates/jinja/parser.h"

#include <algorithm>

#include "templates/jinja/failure.h"
#include "templates/jinja/program.h"

namespace ibid::jinja {

Parser::Nesting::Nesting(Parser& parser) : parser_(parser) {
  // A parenthesis passes through several rules that count.
  if (++parser.depth_ > 4 * parser.max_depth_) {
    fail_budget("template line " + std::to_string(parser.current().line) + ": nested deeper than " +
                std::to_string(parser.max_depth_) + " (budget: depth)");
  }
}

Parser::Parser(std::vector<Token> tokens, uint32_t max_depth)
    : tokens_(std::move(tokens)), max_depth_(max_depth) {
  for (const char* name : {"loop", "caller", "varargs", "kwargs"}) intern(name);
}

bool Parser::is_operator(const Token& token, std::string_view text) {
  return token.type == TokenType::kOperator && token.text == text;
}

bool Parser::is_name(const Token& token, std::string_view text) {
  return token.type == TokenType::kName && token.text == text;
}

bool Parser::skip_operator(std::string_view text) {
  if (!at_operator(text)) return false;
  next();
  return true;
}

bool Parser::skip_name(std::string_view text) {
  if (!at_name(text)) return false;
  next();
  return true;
}

void Parser::expect_operator(std::string_view text) {
  if (!skip_operator(text))
    fail_here("expected token '" + std::string(text) + "', got '" + describe(current()) + "'");
}

void Parser::expect_name(std::string_view text) {
  if (!skip_name(text))
    fail_here("expected token '" + std::string(text) + "', got '" + describe(current()) + "'");
}

std::string Parser::expect_any_name() {
  if (!at_type(TokenType::kName)) fail_here("expected token 'name', got '" + describe(current()) + "'");
  std::string name = current().text;
  next();
  return name;
}

void Parser::expect_type(TokenType type) {
  if (!at_type(type)) {
    Token wanted;
    wanted.type = type;
    fail_here("expected token '" + describe(wanted) + "', got '" + describe(current()) + "'");
  }
  next();
}

void Parser::fail_here(const std::string& message) const { fail_syntax(current().line, message); }

Symbol Parser::intern(const std::string& name) {
  const auto [it, is_new] = symbols_.emplace(name, static_cast<Symbol>(names_.size()));
  if (is_new) names_.push_back(name);
  return it->second;
}

ExprPtr Parser::make(ExprKind kind, int line) const {
  auto node = std::make_unique<Expr>();
  node->kind = kind;
  node->line = line;
  return node;
}

ExprPtr Parser::make(ExprKind kind, int line, ExprPtr child) const {
  ExprPtr node = make(kind, line);
  adopt(*node, std::move(child));
  return node;
}

void Parser::adopt(Expr& parent, ExprPtr child) const {
  if (child != nullptr) {
    parent.height = std::max(parent.height, child->height + 1);
    check_height(parent);
  }
  parent.children.push_back(std::move(child));
}

void Parser::check_height(const Expr& expr) {
  if (expr.height <= kMaxTreeHeight) return;
  fail_budget("template line " + std::to_string(expr.line) + ": an expression of more than " +
              std::to_string(kMaxTreeHeight) + " levels (budget: depth)");
}

ExprPtr Parser::binary(ExprKind kind, int line, ExprPtr left, ExprPtr right) const {
  ExprPtr node = make(kind, line, std::move(left));
  adopt(*node, std::move(right));
  return node;
}

ExprPtr Parser::constant(Value value, int line) const {
  ExprPtr node = make(ExprKind::kConstant, line);
  node->constant = std::move(value);
  return node;
}

Body Parser::parse() {
  Body body = parse_body({});
  if (!at_type(TokenType::kEnd)) fail_here("unexpected '" + describe(current()) + "'");
  if (!unknown_.empty()) fail_syntax(unknown_[0].first, unknown_[0].second);
  return body;
}

// Stops behind {% when one of `ends` follows, or at the end of the template when there are none.
Body Parser::parse_body(std::initializer_list<std::string_view> ends) {
  const Nesting nesting(*this);
  Body body;
  for (;;) {
    switch (current().type) {
      case TokenType::kEnd: {
        if (ends.size() == 0) return body;
        std::string wanted;
        for (const std::string_view end : ends)
          wanted += (wanted.empty() ? "'" : " or '") + std::string(end) + "'";
        fail_here("unexpected end of template; looking for " + wanted);
      }
      case TokenType::kData: {
        auto stmt = std::make_unique<Stmt>();
        stmt->line = current().line;
        stmt->text = current().text;
        next();
        body.push_back(std::move(stmt));
        break;
      }
      case TokenType::kOutputBegin: parse_output(body); break;
      default: {
        expect_type(TokenType::kBlockBegin);
        for (const std::string_view end : ends) {
          if (at_name(end)) return body;
        }
        body.push_back(parse_statement());
        expect_type(TokenType::kBlockEnd);
      }
    }
  }
}

void Parser::parse_output(Body& body) {
  auto stmt = std::make_unique<Stmt>();
  stmt->kind = StmtKind::kOutput;
  stmt->line = current().line;
  next();
  stmt->exprs.push_back(parse_tuple({}));
  expect_type(TokenType::kOutputEnd);
  body.push_back(std::move(stmt));
}

Body Parser::parse_block(std::string_view end) {
  expect_type(TokenType::kBlockEnd);
  Body body = parse_body({end});
  next();
  return body;
}

StmtPtr Parser::parse_statement() {
  using Rule = StmtPtr (Parser::*)();
  static constexpr std::pair<std::string_view, Rule> kRules[] = {{"if", &Parser::parse_if},
                                                                 {"for", &Parser::parse_for},
                                                                 {"set", &Parser::parse_set},
                                                                 {"macro", &Parser::parse_macro},
                                                                 {"call", &Parser::parse_call_block},
                                                                 {"filter", &Parser::parse_filter_block},
                                                                 {"with", &Parser::parse_with},
                                                                 {"generation", &Parser::parse_generation},
                                                                 {"break", &Parser::parse_loop_control},
                                                                 {"continue", &Parser::parse_loop_control},
                                                                 {"include", &Parser::parse_unsupported},
                                                                 {"import", &Parser::parse_unsupported},
                                                                 {"from", &Parser::parse_unsupported},
                                                                 {"extends", &Parser::parse_unsupported}};
  if (!at_type(TokenType::kName)) fail_here("tag name expected");
  for (const auto& [name, rule] : kRules) {
    if (!at_name(name)) continue;
    const int line = current().line;
    StmtPtr stmt = (this->*rule)();
    stmt->line = line;
    return stmt;
  }
  fail_here("Encountered unknown tag '" + current().text + "'.");
}

StmtPtr Parser::parse_if() {
  auto stmt = std::make_unique<Stmt>();
  stmt->kind = StmtKind::kIf;
  TupleRules rules;
  rules.with_condition = false;
  next();
  ++soft_;
  for (;;) {
    stmt->exprs.push_back(parse_tuple(rules));
    expect_type(TokenType::kBlockEnd);
    stmt->bodies.push_back(parse_body({"elif", "else", "endif"}));
    if (!skip_name("elif")) break;
  }
  if (skip_name("else")) {
    stmt->exprs.push_back(nullptr);
    stmt->bodies.push_back(parse_block("endif"));
  } else {
    expect_name("endif");
  }
  --soft_;
  return stmt;
}

StmtPtr Parser::parse_for() {
  auto stmt = std::make_unique<Stmt>();
  stmt->kind = StmtKind::kFor;
  next();
  stmt->targets.push_back(parse_target("in", false));
  expect_name("in");
  TupleRules rules;
  rules.with_condition = false;
  rules.end_name = "recursive";
  stmt->exprs.push_back(parse_tuple(rules));
  stmt->exprs.push_back(skip_name("if") ? parse_expression() : nullptr);
  stmt->recursive = skip_name("recursive");
  expect_type(TokenType::kBlockEnd);
  ++loops_;
  stmt->bodies.push_back(parse_body({"endfor", "else"}));
  --loops_;
  if (skip_name("else")) {
    stmt->bodies.push_back(parse_block("endfor"));
  } else {
    expect_name("endfor");
    stmt->bodies.emplace_back();
  }
  return stmt;
}

ExprPtr Parser::parse_target(std::string_view end_name, bool with_namespace) {
  TupleRules rules;
  rules.simplified = true;
  rules.end_name = end_name;
  rules.with_namespace = with_namespace;
  ExprPtr target = parse_tuple(rules);
  check_target(*target);
  return target;
}

void Parser::check_target(const Expr& target) const {
  if (target.kind == ExprKind::kName || target.kind == ExprKind::kNamespaceField) return;
  if (target.kind != ExprKind::kTuple) fail_syntax(target.line, "can't assign to an expression");
  for (const ExprPtr& child : target.children) check_target(*child);
}

StmtPtr Parser::parse_set() {
  auto stmt = std::make_unique<Stmt>();
  next();
  stmt->targets.push_back(parse_target({}, true));
  if (skip_operator("=")) {
    stmt->kind = StmtKind::kSet;
    stmt->exprs.push_back(parse_tuple({}));
    return stmt;
  }
  stmt->kind = StmtKind::kSetBlock;
  if (skip_operator("|")) stmt->filters = parse_filter_chain();
  stmt->bodies.push_back(parse_block("endset"));
  return stmt;
}

// name(args) | name(args) ...
std::vector<ExprPtr> Parser::parse_filter_chain() {
  std::vector<ExprPtr> filters;
  do {
    filters.push_back(parse_filter(nullptr));
  } while (skip_operator("|"));
  return filters;
}

void Parser::parse_signature(MacroNode& macro) {
  expect_operator("(");
  while (!at_operator(")")) {
    if (!macro.parameters.empty()) {
      expect_operator(",");
      if (at_operator(")")) break;
    }
    const std::string name = expect_any_name();
    macro.parameters.emplace_back(name, intern(name));
    if (skip_operator("=")) {
      macro.defaults.push_back(parse_expression());
    } else if (!macro.defaults.empty()) {
      fail_here("non-default argument follows default argument");
    }
  }
  expect_operator(")");
}

StmtPtr Parser::parse_macro() {
  auto stmt = std::make_unique<Stmt>();
  stmt->kind = StmtKind::kMacro;
  stmt->macro = std::make_unique<MacroNode>();
  MacroNode& macro = *stmt->macro;
  next();
  macro.name = expect_any_name();
  macro.symbol = intern(macro.name);
  MacroNode* const outer = std::exchange(macro_, &macro);
  const int outer_loops = std::exchange(loops_, 0);
  parse_signature(macro);
  macro.body = parse_block("endmacro");
  macro_ = outer;
  loops_ = outer_loops;
  return stmt;
}

StmtPtr Parser::parse_call_block() {
  auto stmt = std::make_unique<Stmt>();
  stmt->kind = StmtKind::kCallBlock;
  stmt->macro = std::make_unique<MacroNode>();
  stmt->macro->name = "caller";
  next();
  if (at_operator("(")) parse_signature(*stmt->macro);
  stmt->exprs.push_back(parse_expression());
  if (stmt->exprs[0]->kind != ExprKind::kCall) fail_here("expected call");
  const int outer_loops = std::exchange(loops_, 0);
  stmt->macro->body = parse_block("endcall");
  loops_ = outer_loops;
  return stmt;
}

StmtPtr Parser::parse_filter_block() {
  auto stmt = std::make_unique<Stmt>();
  stmt->kind = StmtKind::kFilterBlock;
  next();
  stmt->filters = parse_filter_chain();
  stmt->bodies.push_back(parse_block("endfilter"));
  return stmt;
}

StmtPtr Parser::parse_with() {
  auto stmt = std::make_unique<Stmt>();
  stmt->kind = StmtKind::kWith;
  next();
  while (!at_type(TokenType::kBlockEnd)) {
    if (!stmt->targets.empty()) expect_operator(",");
    ExprPtr target = parse_primary();
    check_target(*target);
    stmt->targets.push_back(std::move(target));
    expect_operator("=");
    stmt->exprs.push_back(parse_expression());
  }
  stmt->bodies.push_back(parse_block("endwith"));
  return stmt;
}

StmtPtr Parser::parse_generation() {
  auto stmt = std::make_unique<Stmt>();
  stmt->kind = StmtKind::kScope;
  next();
  const int outer_loops = std::exchange(loops_, 0);
  stmt->bodies.push_back(parse_block("endgeneration"));
  loops_ = outer_loops;
  return stmt;
}

StmtPtr Parser::parse_loop_control() {
  auto stmt = std::make_unique<Stmt>();
  stmt->kind = at_name("break") ? StmtKind::kBreak : StmtKind::kContinue;
  if (loops_ == 0) fail_here("'" + current().text + "' outside of a loop");
  next();
  return stmt;
}

StmtPtr Parser::parse_unsupported() {
  auto stmt = std::make_unique<Stmt>();
  stmt->kind = StmtKind::kUnsupported;
  stmt->text = current().text;
  while (!at_type(TokenType::kBlockEnd) && !at_type(TokenType::kEnd)) next();
  return stmt;
}

}  // namespace ibid::jinja
