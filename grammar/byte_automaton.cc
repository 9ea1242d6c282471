#include "grammar/byte_automaton.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ibid {

// AutomatonBuilder: builds the states of a ByteAutomaton from a grammar's expressions (Thompson's construction),
// analyses which rules can be empty or end, and drops states from which no text can be completed.
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
  // Adds paths from `from` to `to` that match `expr`.
  void add(ExprId expr, StateId from, StateId to, size_t depth);
  void add_bytes(std::string_view text, StateId from, StateId to);
  void add_chars(const CodePointSet& set, StateId from, StateId to);
  void add_token(const Expr& expr, StateId from, StateId to);
  void add_graph(const ExprGraph& graph, StateId from, StateId to, size_t depth);
  void add_repeat(const Expr& expr, StateId from, StateId to, size_t depth);
  void add_block(const Expr& expr, StateId from, StateId to);
  void add_edge(StateId from, Edge edge);
  void add_empty(StateId from, StateId to) { add_edge(from, {Edge::Kind::kEmpty, 0, 0, to, 0}); }
  StateId add_state();
  RuleId body_rule(ExprId expr);

  // Returns the index of a state in the tables of the analyses below. All states of a block (a counted repetition)
  // share one index.
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
  std::vector<std::vector<uint32_t>> edges_from_;  // by state: indices in edges_ of the edges that begin there
  std::vector<bool> productive_;  // by node_of(): true if the end of the rule can be reached from the state
  std::vector<std::vector<RuleId>> calls_first_;  // by rule: the rules that it can call before it reads a byte
  std::map<ExprId, RuleId> bodies_;
  std::map<std::string, uint32_t> token_indices_;  // by the name of a token in the grammar: index in out_.tokens_
  std::vector<ExprId> rule_exprs_;
  std::vector<bool> is_outermost_rule_;  // by rule: true for the first rule and for texts that its blocks repeat
  bool outermost_ = false;               // value in is_outermost_rule_ of the rule that is being added
  ByteAutomaton out_;
};

namespace {

// True if the expression matches exactly one byte, which is in `ranges`. Then its repetitions need no calls of rules.
bool is_one_byte(const GrammarRules& grammar, ExprId id, std::vector<ByteRange>& ranges) {
  const Expr& expr = grammar.expr(id);
  if (expr.kind == Expr::Kind::kByteRange) {
    ranges = {{static_cast<uint8_t>(expr.a), static_cast<uint8_t>(expr.b)}};
    return true;
  }
  if (expr.kind != Expr::Kind::kChars || grammar.set(expr).ranges().back().last > 0x7F) return false;
  for (const CodePointSet::Range& range : grammar.set(expr).ranges()) {
    ranges.push_back({static_cast<uint8_t>(range.first), static_cast<uint8_t>(range.last)});
  }
  return true;
}

}  // namespace

Result<ByteAutomaton> AutomatonBuilder::build() {
  TRY(add_rules());
  edges_from_.resize(n_states_);
  for (uint32_t i = 0; i < edges_.size(); ++i) edges_from_[edges_[i].first].push_back(i);
  find_productive();
  find_nullable();
  TRY(find_ranks());
  finish();
  return std::move(out_);
}

Status AutomatonBuilder::add_rules() {
  CHECK(grammar_.n_rules() > 0);
  for (RuleId i = 0; i < grammar_.n_rules(); ++i) {
    outermost_ = i == 0;
    add_rule(grammar_.rule_expr(i));
  }
  // The loop also visits the rules that add_block() appends to rule_exprs_ during the loop.
  for (RuleId i = 0; i < rule_exprs_.size() && status_.ok(); ++i) {
    outermost_ = is_outermost_rule_[i];
    add(rule_exprs_[i], out_.rules_[i].start, out_.rules_[i].final, 0);
  }
  return status_;
}

void AutomatonBuilder::add_rule(ExprId expr) {
  rule_exprs_.push_back(expr);
  is_outermost_rule_.push_back(outermost_);
  const StateId start = add_state();
  out_.rules_.push_back({.start = start, .final = add_state()});
}

StateId AutomatonBuilder::add_state() {
  if (n_states_ + n_edges_ >= limits_.max_states && status_.ok()) {
    status_ = {ErrorCode::kLimitExceeded,
               "the grammar has more than " + std::to_string(limits_.max_states) + " states"};
  }
  out_.outermost_.push_back(outermost_);
  return n_states_++;
}

void AutomatonBuilder::add_edge(StateId from, Edge edge) {
  if (n_states_ + ++n_edges_ > limits_.max_states && status_.ok()) {
    status_ = {ErrorCode::kLimitExceeded,
               "the grammar has more than " + std::to_string(limits_.max_states) + " states and edges"};
  }
  if (status_.ok()) edges_.emplace_back(from, edge);
}

void AutomatonBuilder::add(ExprId id, StateId from, StateId to, size_t depth) {
  if (depth > limits_.max_depth && status_.ok()) {
    status_ = {ErrorCode::kLimitExceeded,
               "the grammar nests more than " + std::to_string(limits_.max_depth) + " expressions"};
  }
  if (!status_.ok()) return;
  const Expr& expr = grammar_.expr(id);
  switch (expr.kind) {
    case Expr::Kind::kNothing: return;
    case Expr::Kind::kEmpty: return add_empty(from, to);
    case Expr::Kind::kBytes: return add_bytes(grammar_.text(expr), from, to);
    case Expr::Kind::kChars: return add_chars(grammar_.set(expr), from, to);
    case Expr::Kind::kByteRange:
      return add_edge(from, {Edge::Kind::kBytes, static_cast<uint8_t>(expr.a), static_cast<uint8_t>(expr.b), to, 0});
    case Expr::Kind::kToken: return add_token(expr, from, to);
    case Expr::Kind::kRule: return add_edge(from, {Edge::Kind::kCall, 0, 0, to, expr.a});
    case Expr::Kind::kRepeat: return add_repeat(expr, from, to, depth);
    case Expr::Kind::kGraph: return add_graph(grammar_.graph(expr), from, to, depth);
    case Expr::Kind::kChoice:
      for (size_t i = 0; i < expr.b; ++i) add(grammar_.child(expr, i), from, to, depth + 1);
      return;
    case Expr::Kind::kSequence:
      for (size_t i = 0; i < expr.b && status_.ok(); ++i) {
        const StateId next = i + 1 == expr.b ? to : add_state();
        add(grammar_.child(expr, i), from, next, depth + 1);
        from = next;
      }
      return;
  }
}

void AutomatonBuilder::add_bytes(std::string_view text, StateId from, StateId to) {
  for (size_t i = 0; i < text.size() && status_.ok(); ++i) {
    const StateId next = i + 1 == text.size() ? to : add_state();
    const auto byte = static_cast<uint8_t>(text[i]);
    add_edge(from, {Edge::Kind::kBytes, byte, byte, next, 0});
    from = next;
  }
}

void AutomatonBuilder::add_token(const Expr& expr, StateId from, StateId to) {
  const std::string& reference = grammar_.text(expr);
  const auto [found, is_new] = token_indices_.emplace(reference, static_cast<uint32_t>(out_.tokens_.size()));
  if (is_new) out_.tokens_.push_back(reference);
  add_edge(from, {expr.b == 0 ? Edge::Kind::kToken : Edge::Kind::kOtherToken, 0, 0, to, found->second});
}

// Adds paths for the UTF-8 sequences of the characters. Sequences whose last bytes have the same ranges share states.
void AutomatonBuilder::add_chars(const CodePointSet& set, StateId from, StateId to) {
  // By the ranges of the last bytes: the state before these bytes.
  std::map<std::vector<std::pair<uint8_t, uint8_t>>, StateId> suffix_states;
  for (const ByteSequence& sequence : utf8_sequences(set)) {
    StateId next = to;
    std::vector<std::pair<uint8_t, uint8_t>> rest;
    for (size_t i = sequence.size(); i-- > 1 && status_.ok();) {
      rest.insert(rest.begin(), {sequence[i].first, sequence[i].last});
      const auto [found, is_new] = suffix_states.emplace(rest, 0);
      if (is_new) {
        found->second = add_state();
        add_edge(found->second, {Edge::Kind::kBytes, sequence[i].first, sequence[i].last, next, 0});
      }
      next = found->second;
    }
    add_edge(from, {Edge::Kind::kBytes, sequence[0].first, sequence[0].last, next, 0});
  }
}

void AutomatonBuilder::add_graph(const ExprGraph& graph, StateId from, StateId to, size_t depth) {
  const StateId base = n_states_;
  for (uint32_t i = 0; i < graph.n_states && status_.ok(); ++i) add_state();
  if (!status_.ok()) return;
  add_empty(from, base);
  for (const uint32_t final : graph.finals) add_empty(base + final, to);
  for (const ExprGraph::Edge& edge : graph.edges) add(edge.label, base + edge.from, base + edge.to, depth + 1);
}

void AutomatonBuilder::add_repeat(const Expr& expr, StateId from, StateId to, size_t depth) {
  const ExprId part = grammar_.child(expr, 0);
  if (expr.max == 1) {
    add_empty(from, to);
    return add(part, from, to, depth + 1);
  }
  if (expr.max != kUnbounded || expr.min > 1) return add_block(expr, from, to);
  // The loop needs a new state, because `from` may have edges of other expressions.
  const StateId begin = add_state();
  const StateId end = expr.min == 0 ? begin : add_state();
  add_empty(from, begin);
  add(part, begin, end, depth + 1);
  if (end != begin) add_empty(end, begin);
  add_empty(end, to);
}

void AutomatonBuilder::add_block(const Expr& expr, StateId from, StateId to) {
  Block block{.base = next_block_state_,
              .min = expr.min,
              .max = expr.max,
              .after = to,
              .calls = false,
              .outermost = outermost_};
  if (!is_one_byte(grammar_, grammar_.child(expr, 0), block.ranges)) {
    block.calls = true;
    block.rule = body_rule(grammar_.child(expr, 0));
  }
  if (next_block_state_ - kFirstBlockState + block.n_states() > limits_.max_block_states) {
    status_ = {ErrorCode::kLimitExceeded, "the counts of the grammar's repetitions add up to more than " +
                                              std::to_string(limits_.max_block_states)};
    return;
  }
  next_block_state_ += static_cast<StateId>(block.n_states());
  add_empty(from, block.base);
  out_.blocks_.push_back(std::move(block));
}

RuleId AutomatonBuilder::body_rule(ExprId expr) {
  const auto [found, is_new] = bodies_.emplace(expr, static_cast<RuleId>(rule_exprs_.size()));
  if (is_new) add_rule(expr);
  return found->second;
}

// Drops edges from which no text can be completed, and groups the other edges by state.
void AutomatonBuilder::finish() {
  for (Block& block : out_.blocks_) block.dead = block.calls && !out_.rules_[block.rule].productive;
  out_.final_.resize(n_states_);
  for (const Rule& rule : out_.rules_) out_.final_[rule.final] = true;
  for (StateId state = 0; state < n_states_; ++state) {
    out_.edge_begin_.push_back(static_cast<uint32_t>(out_.edges_.size()));
    for (const uint32_t i : edges_from_[state]) {
      const Edge& edge = edges_[i].second;
      if (!productive_[node_of(edge.target)]) continue;
      if (edge.kind == Edge::Kind::kCall && !out_.rules_[edge.rule].productive) continue;
      out_.edges_.push_back(edge);
    }
  }
  out_.edge_begin_.push_back(static_cast<uint32_t>(out_.edges_.size()));
  out_.tail_ = out_.final_;
  // tail_: true for states from which only empty edges lead to the rule's end (is_tail()).
  for (StateId state = 0; state < n_states_; ++state) {
    StateId end = state;
    for (size_t n = 0; n < 8 && !out_.is_final(end); ++n) {
      const auto edges = out_.edges(end);
      if (edges.size() != 1 || edges[0].kind != Edge::Kind::kEmpty || out_.is_block_state(edges[0].target)) break;
      end = edges[0].target;
    }
    out_.tail_[state] = out_.final_[end];
  }
}

Result<ByteAutomaton> ByteAutomaton::compile(const GrammarRules& grammar, const Limits& limits) {
  if (grammar.full()) return {ErrorCode::kLimitExceeded, "the grammar is larger than its limits"};
  return AutomatonBuilder(grammar, limits).build();
}

const ByteAutomaton::Block& ByteAutomaton::block_of(StateId state) const {
  const auto next = std::upper_bound(blocks_.begin(), blocks_.end(), state,
                                     [](StateId s, const Block& block) { return s < block.base; });
  return *(next - 1);
}

// --- Analyses of AutomatonBuilder: which states lead to the end of their rule, which rules match the empty text, and
// which rule can call which before it reads a byte. Each analysis is one walk over the edges. A step that needs the
// result for another rule waits in the list `waiting` of that rule.

size_t AutomatonBuilder::node_of(StateId state) const {
  if (!ByteAutomaton::is_block_state(state)) return state;
  return n_states_ + static_cast<size_t>(&out_.block_of(state) - out_.blocks_.data());
}

std::string AutomatonBuilder::rule_name(RuleId rule) const {
  return rule < grammar_.n_rules() ? grammar_.rule_name(rule) : "a repetition";
}

// Finds the states that lead to the end of their rule: walks backwards from the ends of the rules.
void AutomatonBuilder::find_productive() {
  const size_t n_nodes = n_states_ + out_.blocks_.size();
  std::vector<std::vector<uint32_t>> edges_to(n_nodes);
  for (uint32_t i = 0; i < edges_.size(); ++i) edges_to[node_of(edges_[i].second.target)].push_back(i);
  std::vector<std::vector<size_t>> blocks_before(n_nodes);
  for (size_t i = 0; i < out_.blocks_.size(); ++i) blocks_before[node_of(out_.blocks_[i].after)].push_back(i);
  // By rule: the nodes from which a call of the rule leads on, to be reached once the rule is known to match a text.
  std::vector<std::vector<size_t>> waiting(out_.rules_.size());
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
      block.calls&& block.min > 0 ? reach_by(n_states_ + i, block.rule) : reach(n_states_ + i);
    }
    for (const RuleId rule : starts[node]) {
      out_.rules_[rule].productive = true;
      for (const size_t waiter : std::exchange(waiting[rule], {})) reach(waiter);
    }
  }
}

// Finds the rules that match the empty text, and fills calls_first_: walks from the start of each rule along edges that
// read no byte.
void AutomatonBuilder::find_nullable() {
  const size_t n_rules = out_.rules_.size();
  calls_first_.resize(n_rules);
  // By called rule: (caller, state after the call), for calls of rules that are not known to match the empty text.
  std::vector<std::vector<std::pair<RuleId, StateId>>> waiting(n_rules);
  std::vector<bool> reached(n_states_ + out_.blocks_.size());  // by node_of(); no state belongs to two rules
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
  // If the repeated rule matches the empty text, {m,n} matches the same texts as {0,n}, so set the minimum to 0.
  for (Block& block : out_.blocks_) {
    if (block.calls && out_.rules_[block.rule].nullable) block.min = 0;
  }
}

// Sets Rule::rank, the order in which Configurations enters rules: a rule has a lower rank than the rules that it can
// call before it reads a byte. Fails if a rule can call itself before it reads a byte.
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
  // The loop gave no rank to the rules on a cycle of calls, nor to rules that a cycle calls. Each of these rules has a
  // caller without a rank. So a walk from a rule to such a caller, then to a caller of that rule and so on, enters a
  // cycle: the first rule that the walk meets twice is on the cycle.
  RuleId at =
      static_cast<RuleId>(std::ranges::find_if(n_callers, [](uint32_t n) { return n > 0; }) - n_callers.begin());
  std::vector<RuleId> caller(out_.rules_.size());  // by rule: a caller to which the loop gave no rank
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
