#include "templates/jinja/parser.h"

#include <utility>

#include "templates/jinja/interpreter.h"
#include "templates/jinja/lexer.h"
#include "templates/jinja/value.h"

namespace ibid::jinja {

Parser::Parser(std::vector<Token> tokens, uint32_t max_depth)
    : state_(std::move(tokens), max_depth), tokens_(state_.tokens), expressions_(state_) {}

Body Parser::parse() {
  Body body = parse_body({});
  if (!tokens_.at_type(TokenType::kEnd)) tokens_.fail_here("unexpected '" + describe(tokens_.current()) + "'");
  state_.unknown.fail_at_first();
  return body;
}

// Parses statements up to a "{%" that is followed by one of the names `ends`, or to the end of the template if `ends`
// is empty.
Body Parser::parse_body(std::initializer_list<std::string_view> ends) {
  const TokenStream::Nesting nesting(tokens_);
  Body body;
  for (;;) {
    switch (tokens_.current().type) {
      case TokenType::kEnd: {
        if (ends.size() == 0) return body;
        std::string wanted;
        for (const std::string_view end : ends) wanted += (wanted.empty() ? "'" : " or '") + std::string(end) + "'";
        tokens_.fail_here("unexpected end of template; looking for " + wanted);
      }
      case TokenType::kData: {
        auto stmt = std::make_unique<Stmt>();
        stmt->line = tokens_.current().line;
        stmt->text = tokens_.current().text;
        tokens_.next();
        body.push_back(std::move(stmt));
        break;
      }
      case TokenType::kOutputBegin: parse_output(body); break;
      default: {
        tokens_.expect_type(TokenType::kBlockBegin);
        for (const std::string_view end : ends) {
          if (tokens_.at_name(end)) return body;
        }
        body.push_back(parse_statement());
        tokens_.expect_type(TokenType::kBlockEnd);
      }
    }
  }
}

void Parser::parse_output(Body& body) {
  auto stmt = std::make_unique<Stmt>();
  stmt->kind = StmtKind::kOutput;
  stmt->line = tokens_.current().line;
  tokens_.next();
  stmt->exprs.push_back(expressions_.parse_tuple({}));
  note_constant_output(*stmt->exprs[0]);
  tokens_.expect_type(TokenType::kOutputEnd);
  body.push_back(std::move(stmt));
}

Body Parser::parse_block(std::string_view end) {
  tokens_.expect_type(TokenType::kBlockEnd);
  Body body = parse_body({end});
  tokens_.next();
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
  if (!tokens_.at_type(TokenType::kName)) tokens_.fail_here("tag name expected");
  for (const auto& [name, rule] : kRules) {
    if (!tokens_.at_name(name)) continue;
    const int line = tokens_.current().line;
    StmtPtr stmt = (this->*rule)();
    stmt->line = line;
    return stmt;
  }
  tokens_.fail_here("Encountered unknown tag '" + tokens_.current().text + "'.");
}

StmtPtr Parser::parse_if() {
  auto stmt = std::make_unique<Stmt>();
  stmt->kind = StmtKind::kIf;
  ExpressionParser::TupleRules rules;
  rules.with_condition = false;
  tokens_.next();
  state_.unknown.enter_branches();
  for (;;) {
    stmt->exprs.push_back(expressions_.parse_tuple(rules));
    tokens_.expect_type(TokenType::kBlockEnd);
    stmt->bodies.push_back(parse_body({"elif", "else", "endif"}));
    if (!tokens_.skip_name("elif")) break;
  }
  if (tokens_.skip_name("else")) {
    stmt->exprs.push_back(nullptr);
    stmt->bodies.push_back(parse_block("endif"));
  } else {
    tokens_.expect_name("endif");
  }
  state_.unknown.leave_branches();
  return stmt;
}

// Fails if a statement inside a {% for %} assigns to the variable `loop`, which Jinja reserves there.
void Parser::check_loop_name(const Expr& target) const {
  if (fors_ == 0) return;
  if (target.kind == ExprKind::kName && target.symbol == Program::kLoopSymbol) {
    fail_syntax(target.line, "Can't assign to special loop variable in for-loop target");
  }
  if (target.kind != ExprKind::kTuple) return;
  for (const ExprPtr& child : target.children) check_loop_name(*child);
}

StmtPtr Parser::parse_for() {
  auto stmt = std::make_unique<Stmt>();
  stmt->kind = StmtKind::kFor;
  tokens_.next();
  ++fors_;
  stmt->targets.push_back(expressions_.parse_target(false));
  check_loop_name(*stmt->targets[0]);
  tokens_.expect_name("in");
  ExpressionParser::TupleRules rules;
  rules.with_condition = false;
  stmt->exprs.push_back(expressions_.parse_tuple(rules));
  stmt->exprs.push_back(tokens_.skip_name("if") ? expressions_.parse_expression() : nullptr);
  stmt->recursive = tokens_.skip_name("recursive");
  tokens_.expect_type(TokenType::kBlockEnd);
  ++loops_;
  stmt->bodies.push_back(parse_body({"endfor", "else"}));
  --loops_;
  if (tokens_.skip_name("else")) {
    stmt->bodies.push_back(parse_block("endfor"));
  } else {
    tokens_.expect_name("endfor");
    stmt->bodies.emplace_back();
  }
  --fors_;
  return stmt;
}

StmtPtr Parser::parse_set() {
  auto stmt = std::make_unique<Stmt>();
  tokens_.next();
  stmt->targets.push_back(expressions_.parse_target(true));
  check_loop_name(*stmt->targets[0]);
  if (tokens_.skip_operator("=")) {
    stmt->kind = StmtKind::kSet;
    stmt->exprs.push_back(expressions_.parse_tuple({}));
    return stmt;
  }
  stmt->kind = StmtKind::kSetBlock;
  if (tokens_.skip_operator("|")) stmt->filters = expressions_.parse_filter_chain();
  stmt->bodies.push_back(parse_block("endset"));
  return stmt;
}

void Parser::parse_signature(MacroNode& macro) {
  tokens_.expect_operator("(");
  while (!tokens_.at_operator(")")) {
    if (!macro.parameters.empty()) {
      tokens_.expect_operator(",");
      if (tokens_.at_operator(")")) break;
    }
    const std::string name = tokens_.expect_any_name();
    macro.parameters.emplace_back(name, state_.symbols.intern(name));
    if (tokens_.skip_operator("=")) {
      macro.defaults.push_back(expressions_.parse_expression());
    } else if (!macro.defaults.empty()) {
      tokens_.fail_here("non-default argument follows default argument");
    }
  }
  tokens_.expect_operator(")");
}

StmtPtr Parser::parse_macro() {
  auto stmt = std::make_unique<Stmt>();
  stmt->kind = StmtKind::kMacro;
  stmt->macro = std::make_unique<MacroNode>();
  MacroNode& macro = *stmt->macro;
  tokens_.next();
  macro.name = tokens_.expect_any_name();
  macro.symbol = state_.symbols.intern(macro.name);
  MacroNode* const outer = std::exchange(state_.macro, &macro);
  const int outer_loops = std::exchange(loops_, 0);
  parse_signature(macro);
  macro.body = parse_block("endmacro");
  state_.macro = outer;
  loops_ = outer_loops;
  return stmt;
}

StmtPtr Parser::parse_call_block() {
  auto stmt = std::make_unique<Stmt>();
  stmt->kind = StmtKind::kCallBlock;
  stmt->macro = std::make_unique<MacroNode>();
  stmt->macro->name = "caller";
  tokens_.next();
  if (tokens_.at_operator("(")) parse_signature(*stmt->macro);
  stmt->exprs.push_back(expressions_.parse_expression());
  if (stmt->exprs[0]->kind != ExprKind::kCall) tokens_.fail_here("expected call");
  const int outer_loops = std::exchange(loops_, 0);
  stmt->macro->body = parse_block("endcall");
  loops_ = outer_loops;
  return stmt;
}

StmtPtr Parser::parse_filter_block() {
  auto stmt = std::make_unique<Stmt>();
  stmt->kind = StmtKind::kFilterBlock;
  tokens_.next();
  stmt->filters = expressions_.parse_filter_chain();
  stmt->bodies.push_back(parse_block("endfilter"));
  return stmt;
}

StmtPtr Parser::parse_with() {
  auto stmt = std::make_unique<Stmt>();
  stmt->kind = StmtKind::kWith;
  tokens_.next();
  while (!tokens_.at_type(TokenType::kBlockEnd)) {
    if (!stmt->targets.empty()) tokens_.expect_operator(",");
    stmt->targets.push_back(expressions_.parse_single_target());
    tokens_.expect_operator("=");
    stmt->exprs.push_back(expressions_.parse_expression());
  }
  stmt->bodies.push_back(parse_block("endwith"));
  return stmt;
}

StmtPtr Parser::parse_generation() {
  auto stmt = std::make_unique<Stmt>();
  stmt->kind = StmtKind::kScope;
  tokens_.next();
  const int outer_loops = std::exchange(loops_, 0);
  stmt->bodies.push_back(parse_block("endgeneration"));
  loops_ = outer_loops;
  return stmt;
}

StmtPtr Parser::parse_loop_control() {
  auto stmt = std::make_unique<Stmt>();
  stmt->kind = tokens_.at_name("break") ? StmtKind::kBreak : StmtKind::kContinue;
  if (loops_ == 0) tokens_.fail_here("'" + tokens_.current().text + "' outside of a loop");
  tokens_.next();
  return stmt;
}

StmtPtr Parser::parse_unsupported() {
  auto stmt = std::make_unique<Stmt>();
  stmt->kind = StmtKind::kUnsupported;
  stmt->text = tokens_.current().text;
  while (!tokens_.at_type(TokenType::kBlockEnd) && !tokens_.at_type(TokenType::kEnd)) tokens_.next();
  return stmt;
}

Result<Program> Program::compile(std::string_view source, const TemplateBudget& budget) {
  if (source.size() > kMaxSourceBytes) {
    return Status(ErrorCode::kTemplateBudget, "the template has " + std::to_string(source.size()) + " bytes; at most " +
                                                  std::to_string(kMaxSourceBytes) + " are read");
  }
  try {
    Parser parser(tokenize(source), budget.max_depth);
    Program program;
    program.body_ = parser.parse();
    program.names_ = parser.take_names();
    return program;
  } catch (const Failure& failure) {
    return Status(failure.code, failure.message);
  }
}

}  // namespace ibid::jinja
