// Calls of tools, and other parts of answers that have a form, behind reasoning: free text up to a word, as an
// automaton over its bytes. What has to be special tokens' text stands in the first rule, where these are allowed.
#include <array>
#include <string>
#include <vector>

#include "sampling/grammar/grammar_parts.h"

namespace ibid {
namespace {

constexpr size_t kMostReasoningBytes = 10'000;  // of the words around it
// More calls in one answer than that are a model that does not find its end.
constexpr uint32_t kMostCalls = 16;

ExprId spaces(GrammarRules& rules, uint32_t most) {
  return rules.repeat(rules.choice({rules.bytes(" "), rules.bytes("\n")}), 0, most);
}

// Any text that ends with the first `word` in it. State i: the text ends with the word's first i bytes, and with no
// longer beginning of it (Knuth, Morris and Pratt).
ExprId text_up_to(const std::string& word, GrammarRules& rules) {
  ExprGraph graph;
  const auto n = static_cast<uint32_t>(word.size());
  graph.n_states = n + 1;
  graph.finals.push_back(n);
  std::array<uint32_t, 256> next{};
  uint32_t shorter = 0;  // the state of the text without its first byte
  std::vector<std::array<uint32_t, 256>> all;
  for (uint32_t i = 0; i < n; ++i) {
    const auto byte = static_cast<uint8_t>(word[i]);
    if (i > 0) next = all[shorter];
    if (i > 0) shorter = all[shorter][byte];
    next[byte] = i + 1;
    all.push_back(next);
    for (size_t first = 0, end = 1; end <= 256; ++end) {
      if (end < 256 && next[end] == next[first]) continue;
      graph.add_edge(i, rules.byte_range(static_cast<uint8_t>(first), static_cast<uint8_t>(end - 1)), next[first]);
      first = end;
    }
  }
  return rules.graph(std::move(graph));
}

ExprId lead_in(const LeadIn& lead, GrammarRules& rules) {
  std::vector<ExprId> parts;
  if (!lead.end.empty()) {
    const ExprId rest = rules.sequence({text_up_to(lead.end, rules), spaces(rules, 2)});
    if (lead.is_open) {
      parts.push_back(rest);
    } else if (!lead.begin.empty()) {
      parts.push_back(rules.optional(rules.sequence({rules.bytes(lead.begin), rest})));
    }
  }
  if (!lead.opening.empty()) parts.push_back(rules.bytes(lead.opening));
  return rules.sequence(parts);
}

}  // namespace

Result<Grammar> compile_calls(const DemandedCalls& demanded) {
  if (demanded.calls.empty()) return {ErrorCode::kInvalidArgument, "calls: there is none to be made"};
  if (demanded.lead.begin.size() + demanded.lead.end.size() > kMostReasoningBytes) {
    return {ErrorCode::kLimitExceeded,
            "reasoning: words of more than " + std::to_string(kMostReasoningBytes) + " bytes"};
  }
  GrammarRules rules;
  const RuleId root = rules.add_rule("calls");
  std::vector<ExprId> calls;
  for (const DemandedCalls::Call& call : demanded.calls) {
    std::vector<ExprId> parts;
    for (const DemandedCalls::Piece& piece : call) {
      if (!piece.words.empty()) parts.push_back(rules.bytes(piece.words));
      if (piece.grammar) parts.push_back(rules.call(rules.append(piece.grammar->parts().rules)));
    }
    calls.push_back(rules.sequence(parts));
  }
  const ExprId call = rules.choice(calls);
  std::vector<ExprId> all = {lead_in(demanded.lead, rules), call};
  if (demanded.several) {
    all.push_back(rules.repeat(rules.sequence({rules.bytes(demanded.separator), call}), 0, kMostCalls - 1));
  }
  if (!demanded.end.empty()) all.push_back(rules.bytes(demanded.end));
  // Where a line break separates calls, a model that wrote one out of habit may still end.
  if (demanded.several) all.push_back(spaces(rules, 2));
  rules.define(root, rules.sequence(all));
  return make_grammar(std::move(rules), "calls", true);
}

Result<Grammar> compile_behind(const LeadIn& lead, const Grammar& grammar) {
  return compile_calls({.lead = lead, .calls = {{{.grammar = grammar}}}});
}

}  // namespace ibid
