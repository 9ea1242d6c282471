// Free text in which triggers begin grammars: an Aho-Corasick automaton over the triggers, as the first rule.
#include <array>
#include <map>

#include "sampling/grammar/grammar_parts.h"

namespace ibid {
namespace {

constexpr size_t kMostTriggerBytes = 10'000;

struct TriggerNode {
  std::array<int32_t, 256> next;
  int32_t trigger = -1;  // the longest that ends here
};

// Nodes of the triggers' common beginnings, with the way to go on at every byte.
std::vector<TriggerNode> trigger_nodes(const std::vector<TriggeredGrammar>& triggers) {
  std::vector<TriggerNode> nodes(1);
  nodes[0].next.fill(-1);
  for (size_t i = 0; i < triggers.size(); ++i) {
    int32_t at = 0;
    for (const char c : triggers[i].trigger) {
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

}  // namespace

Result<Grammar> compile_triggers(const std::vector<TriggeredGrammar>& triggers, const TriggerRules& options) {
  GrammarRules rules;
  const RuleId root = rules.add_rule("free text");
  const ExprId blank = rules.repeat(rules.choice({rules.bytes(" "), rules.bytes("\n")}), 0, 1);
  std::vector<ExprId> bodies;
  size_t n_bytes = 0;
  for (const TriggeredGrammar& triggered : triggers) {
    if (triggered.trigger.empty()) return {ErrorCode::kInvalidArgument, "triggers: one is empty"};
    n_bytes += triggered.trigger.size();
    std::vector<ExprId> body = {blank, rules.call(rules.append(triggered.grammar.parts().rules))};
    if (!triggered.end.empty()) body.insert(body.end(), {blank, rules.bytes(triggered.end)});
    bodies.push_back(rules.sequence(body));
  }
  if (triggers.empty()) return {ErrorCode::kInvalidArgument, "triggers: none are given"};
  if (n_bytes > kMostTriggerBytes) {
    return {ErrorCode::kLimitExceeded, "triggers: more than " + std::to_string(kMostTriggerBytes) + " bytes"};
  }
  const std::vector<TriggerNode> nodes = trigger_nodes(triggers);
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
      for (size_t first = 0, byte = 1; byte <= 256; ++byte) {
        if (byte < 256 && nodes[i].next[byte] == nodes[i].next[first]) continue;
        graph.add_edge(from, rules.byte_range(static_cast<uint8_t>(first), static_cast<uint8_t>(byte - 1)),
                       copy * n + static_cast<uint32_t>(nodes[i].next[first]));
        first = byte;
      }
    }
  }
  rules.define(root, rules.graph(std::move(graph)));
  return make_grammar(std::move(rules), "triggers", true);
}

}  // namespace ibid
