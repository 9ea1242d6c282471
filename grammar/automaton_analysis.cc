// What AutomatonBuilder has to know of its states: which of them lead to the end of their rule, which rules spell the
// empty text, and which rule calls which before a byte was read. Each is one walk over the edges; a walk that has to
// know something of a rule waits there until it is known.
#include <algorithm>

#include "grammar/automaton_builder.h"

namespace ibid {

// A block's entry is a node behind the states. Targets of edges are states or entries.
size_t AutomatonBuilder::node_of(StateId state) const {
  if (!ByteAutomaton::is_block_state(state)) return state;
  return n_states_ + static_cast<size_t>(&out_.block_of(state) - out_.blocks_.data());
}

std::string AutomatonBuilder::rule_name(RuleId rule) const {
  return rule < grammar_.n_rules() ? grammar_.rule_name(rule) : "a repetition";
}

// Backwards from the ends of the rules.
void AutomatonBuilder::find_productive() {
  const size_t n_nodes = n_states_ + out_.blocks_.size();
  std::vector<std::vector<uint32_t>> edges_to(n_nodes);
  for (uint32_t i = 0; i < edges_.size(); ++i) edges_to[node_of(edges_[i].second.target)].push_back(i);
  std::vector<std::vector<size_t>> blocks_before(n_nodes);
  for (size_t i = 0; i < out_.blocks_.size(); ++i) blocks_before[node_of(out_.blocks_[i].after)].push_back(i);
  std::vector<std::vector<size_t>> waiting(out_.rules_.size());  // for the rule; nodes
  std::vector<std::vector<RuleId>> starts(n_nodes);
  productive_.assign(n_nodes, false);
  std::vector<size_t> work;
  const auto reach = [&](size_t node) {
    if (productive_[node]) return;
    productive_[node] = true;
    work.push_back(node);
  };
  const auto reach_by = [&](size_t node, RuleId rule) {
    out_.rules_[rule].productive ? reach(node) : waiting[rule].push_back(node);
  };
  for (RuleId i = 0; i < out_.rules_.size(); ++i) starts[out_.rules_[i].start].push_back(i);
  for (const Rule& rule : out_.rules_) reach(rule.final);
  while (!work.empty()) {
    const size_t node = work.back();
    work.pop_back();
    for (const uint32_t i : edges_to[node]) {
      const auto& [from, edge] = edges_[i];
      edge.kind == Edge::Kind::kCall ? reach_by(from, edge.rule) : reach(from);
    }
    for (const size_t i : blocks_before[node]) {
      const Block& block = out_.blocks_[i];
      block.calls && block.min > 0 ? reach_by(n_states_ + i, block.rule) : reach(n_states_ + i);
    }
    for (const RuleId rule : starts[node]) {
      out_.rules_[rule].productive = true;
      for (const size_t waiter : std::exchange(waiting[rule], {})) reach(waiter);
    }
  }
}

// Forwards from the starts of the rules, without a byte. The rules that are met on the way are calls_first_.
void AutomatonBuilder::find_nullable() {
  const size_t n_rules = out_.rules_.size();
  calls_first_.resize(n_rules);
  std::vector<std::vector<std::pair<RuleId, StateId>>> waiting(n_rules);  // (rule that waits, where it goes on)
  std::vector<bool> reached(n_states_ + out_.blocks_.size());             // each state is of one rule
  std::vector<std::pair<RuleId, StateId>> work;
  const auto reach = [&](RuleId rule, StateId state) {
    const size_t node = node_of(state);
    if (reached[node] || !productive_[node]) return;
    reached[node] = true;
    work.emplace_back(rule, state);
  };
  const auto call = [&](RuleId rule, RuleId callee, StateId then) {
    calls_first_[rule].push_back(callee);
    if (out_.rules_[callee].nullable) return reach(rule, then);
    waiting[callee].emplace_back(rule, then);
  };
  for (RuleId i = 0; i < n_rules; ++i) reach(i, out_.rules_[i].start);
  while (!work.empty()) {
    const auto [rule, state] = work.back();
    work.pop_back();
    if (ByteAutomaton::is_block_state(state)) {
      const Block& block = out_.block_of(state);
      if (block.min == 0) reach(rule, block.after);
      if (block.calls && out_.rules_[block.rule].productive) call(rule, block.rule, block.after);
      continue;
    }
    if (state == out_.rules_[rule].final && !out_.rules_[rule].nullable) {
      out_.rules_[rule].nullable = true;
      for (const auto& [waiter, then] : std::exchange(waiting[rule], {})) reach(waiter, then);
    }
    for (const uint32_t i : edges_from_[state]) {
      const Edge& edge = edges_[i].second;
      if (!productive_[node_of(edge.target)]) continue;
      if (edge.kind == Edge::Kind::kEmpty) reach(rule, edge.target);
      if (edge.kind == Edge::Kind::kCall && out_.rules_[edge.rule].productive) call(rule, edge.rule, edge.target);
    }
  }
  // A body that may be empty makes the least count 0: {m,n} of it is {0,n} of its texts that are not empty.
  for (Block& block : out_.blocks_) {
    if (block.calls && out_.rules_[block.rule].nullable) block.min = 0;
  }
}

// Numbers the rules so that a rule comes before those that it calls first. There is no such order where a rule can
// call itself before a byte.
Status AutomatonBuilder::find_ranks() {
  std::vector<uint32_t> n_callers(out_.rules_.size());
  for (auto& callees : calls_first_) {
    std::ranges::sort(callees);
    callees.erase(std::unique(callees.begin(), callees.end()), callees.end());
    for (const RuleId callee : callees) ++n_callers[callee];
  }
  std::vector<RuleId> ready;
  for (RuleId i = 0; i < n_callers.size(); ++i) {
    if (n_callers[i] == 0) ready.push_back(i);
  }
  uint32_t rank = 0;
  while (!ready.empty()) {
    const RuleId rule = ready.back();
    ready.pop_back();
    out_.rules_[rule].rank = rank++;
    for (const RuleId callee : calls_first_[rule]) {
      if (--n_callers[callee] == 0) ready.push_back(callee);
    }
  }
  if (rank == out_.rules_.size()) return {};
  // Whoever is left is called by the circle; of these, one that is met twice on the way up stands in it.
  RuleId at = static_cast<RuleId>(std::ranges::find_if(n_callers, [](uint32_t n) { return n > 0; }) -
                                  n_callers.begin());
  std::vector<RuleId> caller(out_.rules_.size());  // one of those that are left
  for (RuleId i = 0; i < n_callers.size(); ++i) {
    for (const RuleId callee : calls_first_[i]) {
      if (n_callers[i] > 0) caller[callee] = i;
    }
  }
  std::vector<bool> met(out_.rules_.size());
  for (; !met[at]; at = caller[at]) met[at] = true;
  return {ErrorCode::kUnsupported, "rule " + rule_name(at) + " is left-recursive: it calls itself before any text"};
}

}  // namespace ibid
