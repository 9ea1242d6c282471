// Calls of tools, and other parts of answers that have a form, behind reasoning. What has to be special tokens' text
// stands in the first rule, where these are allowed: nothing of a call but its grammars is a rule of its own.
#include <algorithm>
#include <string>
#include <vector>

#include "grammar/call_rules.h"
#include "grammar/grammar_parts.h"
#include "grammar/word_automaton.h"

namespace ibid {
namespace {

// More calls in one answer than that are a model that does not find its end.
constexpr size_t kMostCalls = 16;
// Each of them is written out; of large ones, fewer are.
constexpr size_t kMostCallStates = 200'000;

size_t n_states_of(const DemandedCalls::Call& call) {
  size_t n = 0;
  for (const DemandedCalls::Piece& piece : call) {
    n += 1 + piece.words.size() + 4 * piece.text_up_to.size();
    for (const DemandedCalls::Call& one : piece.one_of) n += n_states_of(one);
  }
  return n;
}

size_t n_states_of_any(const DemandedCalls& demanded) {
  size_t n = 1 + demanded.separator.size();
  for (const DemandedCalls::Call& call : demanded.calls) n += n_states_of(call);
  return n;
}

ExprId spaces(GrammarRules& rules, uint32_t most) {
  return rules.repeat(rules.choice({rules.bytes(" "), rules.bytes("\n")}), 0, most);
}

ExprId reasoning(const LeadIn& lead, GrammarRules& rules) {
  if (lead.end.empty()) return rules.empty();
  const ExprId rest = rules.sequence({text_up_to(lead.end, rules), spaces(rules, 2)});
  if (lead.is_open) return rest;
  return lead.begin.empty() ? rules.empty() : rules.optional(rules.sequence({rules.bytes(lead.begin), rest}));
}

// One call, or several with the separator between two.
ExprId section(const DemandedCalls& demanded, CallRules& rules) {
  std::vector<ExprId> calls;
  for (const DemandedCalls::Call& call : demanded.calls) calls.push_back(rules.call(call));
  const ExprId call = rules->choice(calls);
  if (!demanded.several) return rules->sequence({call, rules->bytes(demanded.end)});
  const size_t n_most = std::clamp<size_t>(kMostCallStates / n_states_of_any(demanded), 1, kMostCalls);
  ExprGraph graph;  // state i: behind i calls
  for (uint32_t i = 0; i < n_most; ++i) {
    const ExprId next = i == 0 ? call : rules->sequence({rules->bytes(demanded.separator), call});
    graph.finals.push_back(graph.add_state());
    graph.add_edge(i, next, i + 1);
  }
  // Where a line break separates calls, a model that wrote one out of habit may still end.
  return rules->sequence({rules->graph(std::move(graph)), rules->bytes(demanded.end), spaces(*rules, 2)});
}

}  // namespace

ExprId text_up_to(const std::string& words, GrammarRules& rules) {
  std::vector<std::string> all = {words};
  const size_t solid = words.find_first_not_of(" \n");
  if (solid != std::string::npos && solid > 0) all.push_back(words.substr(solid));  // the text has these nowhere
  const WordAutomaton automaton(all);
  ExprGraph graph;
  graph.n_states = 0;
  automaton.add_to(graph, rules, {true, false});
  for (uint32_t i = 0; i < automaton.n_nodes(); ++i) {
    if (automaton.word_at(i) == 0) graph.finals.push_back(i);
  }
  return rules.graph(std::move(graph));
}

ExprId CallRules::call(const DemandedCalls::Call& call) {
  std::vector<ExprId> parts;
  for (const DemandedCalls::Piece& piece : call) {
    if (!piece.words.empty()) parts.push_back(rules_.bytes(piece.words));
    if (piece.grammar) parts.push_back(rules_.call(rule_of(*piece.grammar)));
    if (Status words = check_words({piece.text_up_to, piece.text_up_to}); !words.ok()) {
      status_ = std::move(words);
    } else if (!piece.text_up_to.empty()) {
      parts.push_back(text_up_to(piece.text_up_to, rules_));
    }
    if (piece.one_of.empty()) continue;
    std::vector<ExprId> ways;
    for (const DemandedCalls::Call& one : piece.one_of) ways.push_back(this->call(one));
    const ExprId one = rules_.choice(ways);
    parts.push_back(piece.repeats ? rules_.repeat(one, 0, kUnbounded) : one);
  }
  return rules_.sequence(parts);
}

// The rules of a grammar are there once, wherever it is used.
RuleId CallRules::rule_of(const Grammar& grammar) {
  const auto [found, is_new] = known_.emplace(&grammar.parts(), 0);
  if (is_new) found->second = rules_.append(grammar.parts().rules);
  return found->second;
}

Status check_words(const std::vector<std::string>& words) {
  size_t n_bytes = 0;
  for (const std::string& word : words) n_bytes += word.size();
  if (n_bytes <= WordAutomaton::kMostBytes) return {};
  return {ErrorCode::kLimitExceeded, "markers of reasoning and calls: words of more than " +
                                         std::to_string(WordAutomaton::kMostBytes) + " bytes"};
}

Result<Grammar> compile_calls(const DemandedCalls& demanded) {
  if (demanded.calls.empty()) return {ErrorCode::kInvalidArgument, "calls: there is none to be made"};
  TRY(check_words({demanded.lead.begin, demanded.lead.end, demanded.lead.end}));  // text_up_to() looks for two words
  GrammarRules rules;
  CallRules calls(rules);
  const RuleId root = rules.add_rule("calls");
  std::vector<ExprId> ways = {rules.sequence({rules.bytes(demanded.lead.opening), section(demanded, calls)})};
  if (demanded.otherwise) ways.push_back(calls.call({*demanded.otherwise}));
  TRY(calls.status());
  rules.define(root, rules.sequence({reasoning(demanded.lead, rules), rules.choice(ways)}));
  return make_grammar(std::move(rules), "calls", true);
}

Result<Grammar> compile_behind(const LeadIn& lead, const Grammar& grammar) {
  return compile_calls({.lead = lead, .calls = {{{.grammar = grammar}}}});
}

}  // namespace ibid
