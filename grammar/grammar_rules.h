// GrammarRules: a grammar in the form that its compilers (JSON Schema, GBNF, regular expressions) produce: expressions
// over bytes and characters, and rules that call each other. ByteAutomaton compiles it to an automaton.
//
// Expressions are indices of nodes in one table, so equal parts can be shared, and destruction does not recurse. When a
// grammar exceeds its limits, full() becomes true: all further expressions are nothing(), and compilation fails at the
// end. So compilers need to check full() only in loops. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/unicode/code_point_set.h"

namespace ibid {

using ExprId = uint32_t;
using RuleId = uint32_t;
inline constexpr uint32_t kUnbounded = std::numeric_limits<uint32_t>::max();
// Maximum count of a repetition, because each count needs a state of the automaton.
inline constexpr uint32_t kMaxRepetition = 1'000'000;

// A graph of states with expressions on its edges. A path from state 0 to a final state matches the texts of its edges
// in sequence.
struct ExprGraph {
  struct Edge {
    uint32_t from, to;
    ExprId label;
  };
  uint32_t n_states = 1;
  std::vector<Edge> edges;
  std::vector<uint32_t> finals;

  uint32_t add_state() { return n_states++; }
  void add_edge(uint32_t from, ExprId label, uint32_t to) { edges.push_back({from, to, label}); }
};

struct Expr {
  enum class Kind : uint8_t {
    kNothing,    // matches no text at all
    kEmpty,      // matches the empty text only
    kBytes,      // the bytes of texts()[a]
    kChars,      // one character of the set sets()[a]
    kByteRange,  // one byte from a to b, whether or not it is a whole character
    kToken,      // b = 0: the whole token that texts()[a] names; b = 1: any token but this one
    kSequence,   // the b expressions from children()[a] on, in sequence
    kChoice,     // one of the b expressions from children()[a] on
    kRepeat,     // children()[a], min to max times
    kRule,       // a call of rule a
    kGraph,      // a text of graphs()[a]
  };
  Kind kind = Kind::kNothing;
  uint32_t a = 0, b = 0;
  uint32_t min = 0, max = 0;
};

class GrammarRules {
 public:
  struct Limits {
    size_t max_exprs = 2'000'000;  // maximum number of nodes, children, edges and bytes together
    size_t max_rules = 100'000;
  };
  GrammarRules() : GrammarRules(Limits{}) {}
  explicit GrammarRules(Limits limits);

  ExprId nothing() const { return 0; }
  ExprId empty() const { return 1; }
  ExprId bytes(std::string_view text);
  ExprId chars(const CodePointSet& set);
  ExprId byte_range(uint8_t first, uint8_t last);
  // reference: a token in the notation of TokenTexts::find(). excluded: match any token but this one.
  ExprId token(std::string_view reference, bool excluded);
  ExprId sequence(const std::vector<ExprId>& parts);
  ExprId choice(const std::vector<ExprId>& parts);
  // Returns an expression for min to max repetitions of `part`. REQUIRES: min <= max; both are at most kMaxRepetition,
  // or max is kUnbounded.
  ExprId repeat(ExprId part, uint32_t min, uint32_t max);
  ExprId optional(ExprId part) { return repeat(part, 0, 1); }
  ExprId graph(ExprGraph graph);
  ExprId call(RuleId rule);

  // Adds a rule, which matches nothing until define() is called. The first rule is the start rule.
  RuleId add_rule(std::string name);
  void define(RuleId rule, ExprId expr);
  // Copies all rules of `other` to this grammar; returns the new id of its first rule.
  RuleId append(const GrammarRules& other);

  bool full() const { return full_; }

  const Expr& expr(ExprId id) const { return exprs_[id]; }
  ExprId child(const Expr& expr, size_t i) const { return children_[expr.a + i]; }
  const std::string& text(const Expr& expr) const { return texts_[expr.a]; }
  const CodePointSet& set(const Expr& expr) const { return sets_[expr.a]; }
  const ExprGraph& graph(const Expr& expr) const { return graphs_[expr.a]; }
  size_t n_rules() const { return rules_.size(); }
  const std::string& rule_name(RuleId rule) const { return rules_[rule].name; }
  ExprId rule_expr(RuleId rule) const { return rules_[rule].expr; }

 private:
  struct Rule {
    std::string name;
    ExprId expr;
  };
  bool take(size_t n);
  ExprId add(Expr expr, size_t n);
  ExprId add_list(Expr::Kind kind, const std::vector<ExprId>& parts);

  const Limits limits_;
  size_t n_used_ = 0;
  bool full_ = false;
  std::vector<Expr> exprs_;
  std::vector<ExprId> children_;
  std::vector<std::string> texts_;
  std::vector<CodePointSet> sets_;
  std::vector<ExprGraph> graphs_;
  std::vector<Rule> rules_;
};

// --- Regular expressions of JSON Schema (ECMA-262 with the flag u). Supported are the regular constructs: classes,
// groups, alternatives, counted repetitions, and anchors of a whole alternative. Lookahead, word boundaries and
// possessive quantifiers are errors that name the construct. A lazy quantifier matches the same texts as a greedy one.

// Returns an expression for one character of a set. It writes the character itself, or in a JSON string its notation
// there.
using CharWriter = std::function<ExprId(const CodePointSet&)>;

enum class RegexMatch {
  kWhole,   // the pattern matches the whole text
  kSearch,  // the pattern matches some part of the text; an anchored pattern only a part at the start or end
};

// Returns an expression for the texts that match `pattern`. O(pattern). Errors: those of parse_regex(), and
// kUnsupported with the place.
Result<ExprId> compile_pattern(std::string_view pattern, RegexMatch match, const CharWriter& write,
                               GrammarRules& rules);

}  // namespace ibid
