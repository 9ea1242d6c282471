// Parser: parses tokens to a syntax tree. Follows Jinja 3.1 (jinja2/parser.py) exactly. Jinja's grammar is unusual in
// places: `a ** b ** c` groups left, and a test takes one argument without brackets.
//
// Recursive descent in three classes: this one parses statements, ExpressionParser operators, OperandParser operands.
// Throws Failure. Used once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "templates/jinja/ast.h"
#include "templates/jinja/lexer.h"
#include "templates/jinja/value.h"

namespace ibid::jinja {

// --- ParseState: the state that the parsers of one template share. It must outlive them; for one thread.

// Numbers the names in a template.
class SymbolTable {
 public:
  SymbolTable() {
    // In the order of kLoopSymbol, kCallerSymbol ...
    for (const char* name : {"loop", "caller", "varargs", "kwargs"}) intern(name);
  }
  Symbol intern(const std::string& name) {
    const auto [it, is_new] = symbols_.emplace(name, static_cast<Symbol>(names_.size()));
    if (is_new) names_.push_back(name);
    return it->second;
  }
  std::vector<std::string> take_names() { return std::move(names_); }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, Symbol> symbols_;
};

// Collects unknown filters and tests. As in Jinja, an unknown name is a parse error. But if the name is inside a
// condition, only a render that evaluates it fails.
class UnknownNames {
 public:
  void add(int line, std::string message) {
    if (n_branches_ == 0) found_.emplace_back(line, std::move(message));
  }
  // Call at the beginning and the end of an {% if %}: names found between the two calls are not recorded.
  void enter_branches() { ++n_branches_; }
  void leave_branches() { --n_branches_; }
  // In `a if b else c` the parser recognises the condition only after it has parsed `a`. It then drops the unknown
  // names that were recorded since the beginning of `a`, where it called size().
  size_t size() const { return found_.size(); }
  void forget_from(size_t size) { found_.resize(size); }

  void fail_at_first() const {
    if (!found_.empty()) fail_syntax(found_[0].first, found_[0].second);
  }

 private:
  int n_branches_ = 0;
  std::vector<std::pair<int, std::string>> found_;  // line and error message of each unknown name
};

struct ParseState {
  ParseState(std::vector<Token> all_tokens, uint32_t max_depth) : tokens(std::move(all_tokens), max_depth) {}

  TokenStream tokens;
  SymbolTable symbols;
  UnknownNames unknown;
  // The macro around the current token. The parser records in it whether the macro's body uses caller, varargs or
  // kwargs.
  MacroNode* macro = nullptr;
};

// --- Constructors of expression nodes (ast.h). Each updates the height of the tree and fails if the height exceeds
// kMaxTreeHeight.

ExprPtr make_node(ExprKind kind, int line);
ExprPtr make_node(ExprKind kind, int line, ExprPtr child);
ExprPtr make_binary(ExprKind kind, int line, ExprPtr left, ExprPtr right);
ExprPtr make_constant(Value value, int line);
// Appends `child`, which may be nullptr, to the children of `parent`.
void adopt(Expr& parent, ExprPtr child);
void check_height(const Expr& expr);
// Marks the slices of a printed expression if the whole expression is constant. Jinja evaluates such an expression at
// compile time, where a slice that Python rejects is undefined instead of an error.
void note_constant_output(Expr& expr);

// --- OperandParser: parses the operands of an expression: literals, names, lists, dicts and brackets, each with the
// subscripts, calls, filters and tests that follow it. Its ExpressionParser parses the expressions in brackets.

class ExpressionParser;

class OperandParser {
 public:
  // Both arguments must outlive the object.
  OperandParser(ParseState& state, ExpressionParser& expressions)
      : state_(state), tokens_(state.tokens), expressions_(expressions) {}

  // with_namespace: reads `name.field` as a target of an assignment, not as an attribute.
  ExprPtr parse_primary(bool with_namespace = false);
  // Parses subscripts and calls after `node`, then filters, tests and calls.
  ExprPtr parse_postfix(ExprPtr node);
  ExprPtr parse_filters(ExprPtr node);
  // Parses one filter, after its bar. `node` is nullptr in a filter block.
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

// --- ExpressionParser: parses operators (loosest first), tuples, targets of assignments, and chains of filters. Its
// OperandParser parses the operands.

class ExpressionParser {
 public:
  // `state` must outlive the parser.
  explicit ExpressionParser(ParseState& state) : state_(state), tokens_(state.tokens), operands_(state, *this) {}
  ExpressionParser(const ExpressionParser&) = delete;
  ExpressionParser& operator=(const ExpressionParser&) = delete;

  ExprPtr parse_expression(bool with_condition = true);
  // Parsing rules for expressions that may be separated by commas; one expression without a comma is not a tuple.
  struct TupleRules {
    bool simplified = false, with_condition = true, parentheses = false, with_namespace = false;
  };
  ExprPtr parse_tuple(const TupleRules& rules);
  // Parses the target of an assignment: names and tuples of names. with_namespace: also allows fields of namespaces.
  ExprPtr parse_target(bool with_namespace);
  ExprPtr parse_single_target();
  // Parses name(args) | name(args) ...
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
  // Parses a body up to the end tag {% `end` %}, and skips the tag.
  Body parse_block(std::string_view end);

  ParseState state_;
  TokenStream& tokens_;
  ExpressionParser expressions_;
  void check_loop_name(const Expr& target) const;

  int loops_ = 0;  // number of enclosing loops in this macro or call block
  int fors_ = 0;   // number of open {% for %} tags
};

}  // namespace ibid::jinja
