// AutomatonBuilder: writes the states of a ByteAutomaton from a grammar's expressions (Thompson's construction), then
// finds out what automaton_analysis.cc says of them, and leaves out what leads nowhere.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "grammar/byte_automaton.h"

namespace ibid {

class AutomatonBuilder {
 public:
  AutomatonBuilder(const GrammarRules& grammar, const ByteAutomaton::Limits& limits)
      : grammar_(grammar), limits_(limits) {}
  Result<ByteAutomaton> build();

 private:
  using Edge = ByteAutomaton::Edge;
  using Block = ByteAutomaton::Block;
  using Rule = ByteAutomaton::Rule;

  Status add_rules();
  void add_rule(ExprId expr);
  // Adds paths from `from` to `to` that spell `expr`.
  void add(ExprId expr, StateId from, StateId to, size_t depth);
  void add_bytes(std::string_view text, StateId from, StateId to);
  void add_chars(const CodePointSet& set, StateId from, StateId to);
  void add_graph(const ExprGraph& graph, StateId from, StateId to, size_t depth);
  void add_repeat(const Expr& expr, StateId from, StateId to, size_t depth);
  void add_block(const Expr& expr, StateId from, StateId to);
  void add_edge(StateId from, Edge edge);
  void add_empty(StateId from, StateId to) { add_edge(from, {Edge::Kind::kEmpty, 0, 0, to, 0}); }
  StateId add_state();
  RuleId body_rule(ExprId expr);

  // A block is named by its number behind the states here, for the analysis of what is reachable from where.
  size_t node_of(StateId state) const;
  std::string rule_name(RuleId rule) const;
  void find_productive();
  void find_nullable();
  Status find_ranks();
  void finish();

  const GrammarRules& grammar_;
  const ByteAutomaton::Limits& limits_;
  Status status_;
  std::vector<std::pair<StateId, Edge>> edges_;
  StateId n_states_ = 0;
  size_t n_edges_ = 0;
  StateId next_block_state_ = kFirstBlockState;
  std::vector<std::vector<uint32_t>> edges_from_;   // state -> numbers in edges_
  std::vector<bool> productive_;                    // by node
  std::vector<std::vector<RuleId>> calls_first_;    // rule -> rules that it can call before a byte
  std::map<ExprId, RuleId> bodies_;
  std::vector<ExprId> rule_exprs_;
  std::vector<bool> is_outermost_rule_;             // the first one, and bodies of its blocks
  bool outermost_ = false;                          // such a rule is being added
  ByteAutomaton out_;
};

}  // namespace ibid
