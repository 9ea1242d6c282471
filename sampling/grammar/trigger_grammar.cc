// Free text in which words begin grammars: an Aho-Corasick automaton over the words, as the first rule. What has to be
// special tokens' text stands in the first rule, where these are allowed.
#include <array>
#include <string>
#include <vector>

#include "sampling/grammar/grammar_parts.h"

namespace ibid {
namespace {

constexpr size_t kMostTriggerBytes = 10'000;

struct TriggerNode {
  std::array<int32_t, 256> next;
  int32_t trigger = -1;  // the longest that ends here
};

// Nodes of the triggers' common beginnings, with the way to go on at every byte.
std::vector<TriggerNode> trigger_nodes(const std::vector<std::string>& triggers) {
  std::vector<TriggerNode> nodes(1);
  nodes[0].next.fill(-1);
  for (size_t i = 0; i < triggers.size(); ++i) {
    int32_t at = 0;
    for (const char c : triggers[i]) {
      const auto byte = static_cast<uint8_t>(c);
      if (nodes[static_cast<size_t>(at)].next[byte] < 0) {
        nodes[static_cast<size_t>(at)].next[byte] = static_cast<int32_t>(nodes.size());
        nodes.emplace_back().next.fill(-1);
      }
      at = nodes[static_cast<size_t>(at)].next[byte];
    }
    nodes[static_cast<size_t>(at)].trigger = static_cast<int32_t>(i);
  }
  std::vector<int32_t> fallback(nodes.size(), 0), order = {0};
  for (size_t i = 0; i < order.size(); ++i) {
    const auto at = static_cast<size_t>(order[i]);
    const auto back = static_cast<size_t>(fallback[at]);
    if (nodes[at].trigger < 0 && at != 0) nodes[at].trigger = nodes[back].trigger;
    for (size_t byte = 0; byte < 256; ++byte) {
      int32_t& next = nodes[at].next[byte];
      const int32_t otherwise = at == 0 ? 0 : nodes[back].next[byte];
      if (next < 0) {
        next = otherwise;
      } else {
        fallback[static_cast<size_t>(next)] = otherwise;
        order.push_back(next);
      }
    }
  }
  return nodes;
}

// The bytes at which a node goes on, to other nodes of the same copy.
void add_byte_edges(const TriggerNode& node, uint32_t from, uint32_t copy_begin, GrammarRules& rules,
                    ExprGraph& graph) {
  for (size_t first = 0, byte = 1; byte <= 256; ++byte) {
    if (byte < 256 && node.next[byte] == node.next[first]) continue;
    graph.add_edge(from, rules.byte_range(static_cast<uint8_t>(first), static_cast<uint8_t>(byte - 1)),
                   copy_begin + static_cast<uint32_t>(node.next[first]));
    first = byte;
  }
}

ExprId spaces(GrammarRules& rules, uint32_t most) {
  return rules.repeat(rules.choice({rules.bytes(" "), rules.bytes("\n")}), 0, most);
}

// Any text that ends with the first `word` in it.
ExprId text_up_to(const std::string& word, GrammarRules& rules) {
  const std::vector<TriggerNode> nodes = trigger_nodes({word});
  ExprGraph graph;
  graph.n_states = static_cast<uint32_t>(nodes.size());
  for (uint32_t i = 0; i < graph.n_states; ++i) {
    if (nodes[i].trigger >= 0) {
      graph.finals.push_back(i);
    } else {
      add_byte_edges(nodes[i], i, 0, rules, graph);
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
  if (demanded.lead.begin.size() + demanded.lead.end.size() > kMostTriggerBytes) {
    return {ErrorCode::kLimitExceeded, "reasoning: words of more than " + std::to_string(kMostTriggerBytes) + " bytes"};
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
    all.push_back(rules.repeat(rules.sequence({rules.bytes(demanded.separator), call}), 0, kUnbounded));
  }
  if (!demanded.end.empty()) all.push_back(rules.bytes(demanded.end));
  rules.define(root, rules.sequence(all));
  return make_grammar(std::move(rules), "calls", true);
}

Result<Grammar> compile_behind(const LeadIn& lead, const Grammar& grammar) {
  return compile_calls({.lead = lead, .calls = {{{.grammar = grammar}}}});
}

Result<Grammar> compile_triggers(const std::vector<TriggeredGrammar>& triggers, const TriggerRules& options) {
  GrammarRules rules;
  const RuleId root = rules.add_rule("free text");
  const ExprId blank = spaces(rules, 1);
  std::vector<ExprId> bodies;
  std::vector<std::string> words;
  size_t n_bytes = 0;
  for (const TriggeredGrammar& triggered : triggers) {
    if (triggered.trigger.empty()) return {ErrorCode::kInvalidArgument, "triggers: one is empty"};
    n_bytes += triggered.trigger.size();
    words.push_back(triggered.trigger);
    std::vector<ExprId> body = {blank, rules.call(rules.append(triggered.grammar.parts().rules))};
    if (!triggered.end.empty()) body.insert(body.end(), {blank, rules.bytes(triggered.end)});
    bodies.push_back(rules.sequence(body));
  }
  if (triggers.empty()) return {ErrorCode::kInvalidArgument, "triggers: none are given"};
  if (n_bytes > kMostTriggerBytes) {
    return {ErrorCode::kLimitExceeded, "triggers: more than " + std::to_string(kMostTriggerBytes) + " bytes"};
  }
  const std::vector<TriggerNode> nodes = trigger_nodes(words);
  const auto n = static_cast<uint32_t>(nodes.size());
  // Two copies of the nodes: before the first trigger, and behind one.
  ExprGraph graph;
  graph.n_states = 2 * n + 1;
  const uint32_t over = 2 * n;
  graph.finals.push_back(over);
  for (uint32_t copy = 0; copy < 2; ++copy) {
    for (uint32_t i = 0; i < n; ++i) {
      const uint32_t from = copy * n + i;
      if (nodes[i].trigger >= 0) {
        graph.add_edge(from, bodies[static_cast<size_t>(nodes[i].trigger)], options.once ? over : n);
        continue;
      }
      if (copy == 1 || !options.required) graph.finals.push_back(from);
      add_byte_edges(nodes[i], from, copy * n, rules, graph);
    }
  }
  rules.define(root, rules.graph(std::move(graph)));
  return make_grammar(std::move(rules), "triggers", true);
}

}  // namespace ibid
