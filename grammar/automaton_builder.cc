#include "grammar/automaton_builder.h"

#include <algorithm>

namespace ibid {
namespace {

// Whether an expression is one byte of a few ranges: such a repetition needs no calls.
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
  for (RuleId i = 0; i < rule_exprs_.size() && status_.ok(); ++i) {  // bodies of blocks are added meanwhile
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
    status_ = {ErrorCode::kLimitExceeded, "the grammar has more than " + std::to_string(limits_.max_states) +
                                              " states"};
  }
  out_.outermost_.push_back(outermost_);
  return n_states_++;
}

void AutomatonBuilder::add_edge(StateId from, Edge edge) {
  if (n_states_ + ++n_edges_ > limits_.max_states && status_.ok()) {
    status_ = {ErrorCode::kLimitExceeded, "the grammar has more than " + std::to_string(limits_.max_states) +
                                              " states and edges"};
  }
  if (status_.ok()) edges_.emplace_back(from, edge);
}

void AutomatonBuilder::add(ExprId id, StateId from, StateId to, size_t depth) {
  if (depth > limits_.max_depth && status_.ok()) {
    status_ = {ErrorCode::kLimitExceeded, "the grammar nests more than " + std::to_string(limits_.max_depth) +
                                              " expressions"};
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

// Sequences that end in the same ranges share the states of these ends.
void AutomatonBuilder::add_chars(const CodePointSet& set, StateId from, StateId to) {
  std::map<std::vector<std::pair<uint8_t, uint8_t>>, StateId> behind;  // what is still to come -> the state before it
  for (const ByteSequence& sequence : utf8_sequences(set)) {
    StateId next = to;
    std::vector<std::pair<uint8_t, uint8_t>> rest;
    for (size_t i = sequence.size(); i-- > 1 && status_.ok();) {
      rest.insert(rest.begin(), {sequence[i].first, sequence[i].last});
      const auto [found, is_new] = behind.emplace(rest, 0);
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
  // A state of its own to come back to: `from` may have edges that are not of this repetition.
  const StateId begin = add_state();
  const StateId end = expr.min == 0 ? begin : add_state();
  add_empty(from, begin);
  add(part, begin, end, depth + 1);
  if (end != begin) add_empty(end, begin);
  add_empty(end, to);
}

void AutomatonBuilder::add_block(const Expr& expr, StateId from, StateId to) {
  Block block{.base = next_block_state_, .min = expr.min, .max = expr.max, .after = to, .calls = false,
              .outermost = outermost_};
  if (!is_one_byte(grammar_, grammar_.child(expr, 0), block.ranges)) {
    block.calls = true;
    block.rule = body_rule(grammar_.child(expr, 0));
  }
  if (next_block_state_ - kFirstBlockState + uint64_t{block.n_states()} > limits_.max_block_states) {
    status_ = {ErrorCode::kLimitExceeded, "the counts of the grammar's repetitions add up to more than " +
                                              std::to_string(limits_.max_block_states)};
    return;
  }
  next_block_state_ += block.n_states();
  add_empty(from, block.base);
  out_.blocks_.push_back(std::move(block));
}

RuleId AutomatonBuilder::body_rule(ExprId expr) {
  const auto [found, is_new] = bodies_.emplace(expr, static_cast<RuleId>(rule_exprs_.size()));
  if (is_new) add_rule(expr);
  return found->second;
}

// Leaves out edges that lead nowhere, and lays the rest out by state.
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
  for (StateId state = 0; state < n_states_; ++state) {  // a chain of empty edges up to the end of the rule
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

}  // namespace ibid
