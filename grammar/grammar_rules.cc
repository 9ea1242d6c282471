#include "grammar/grammar_rules.h"

#include "base/check.h"

namespace ibid {

GrammarRules::GrammarRules(Limits limits) : limits_(limits) {
  exprs_.push_back({.kind = Expr::Kind::kNothing});
  exprs_.push_back({.kind = Expr::Kind::kEmpty});
}

bool GrammarRules::take(size_t n) {
  n_used_ += n;
  full_ |= n_used_ > limits_.max_exprs;
  return !full_;
}

ExprId GrammarRules::add(Expr expr, size_t n) {
  if (!take(n)) return nothing();
  exprs_.push_back(expr);
  return static_cast<ExprId>(exprs_.size() - 1);
}

ExprId GrammarRules::bytes(std::string_view text) {
  if (text.empty()) return empty();
  const ExprId id = add({.kind = Expr::Kind::kBytes, .a = static_cast<uint32_t>(texts_.size())}, 1 + text.size());
  if (id != nothing()) texts_.emplace_back(text);
  return id;
}

ExprId GrammarRules::chars(const CodePointSet& set) {
  if (set.empty()) return nothing();
  const ExprId id =
      add({.kind = Expr::Kind::kChars, .a = static_cast<uint32_t>(sets_.size())}, 1 + set.ranges().size());
  if (id != nothing()) sets_.push_back(set);
  return id;
}

ExprId GrammarRules::byte_range(uint8_t first, uint8_t last) {
  return add({.kind = Expr::Kind::kByteRange, .a = first, .b = last}, 1);
}

ExprId GrammarRules::token(std::string_view reference, bool excluded) {
  const ExprId id = add({.kind = Expr::Kind::kToken, .a = static_cast<uint32_t>(texts_.size()), .b = excluded ? 1u : 0},
                        1 + reference.size());
  if (id != nothing()) texts_.emplace_back(reference);
  return id;
}

ExprId GrammarRules::add_list(Expr::Kind kind, const std::vector<ExprId>& parts) {
  const ExprId id =
      add({.kind = kind, .a = static_cast<uint32_t>(children_.size()), .b = static_cast<uint32_t>(parts.size())},
          1 + parts.size());
  if (id != nothing()) children_.insert(children_.end(), parts.begin(), parts.end());
  return id;
}

ExprId GrammarRules::sequence(const std::vector<ExprId>& parts) {
  std::vector<ExprId> kept;
  for (const ExprId part : parts) {
    if (part == nothing()) return nothing();
    if (part != empty()) kept.push_back(part);
  }
  if (kept.empty()) return empty();
  return kept.size() == 1 ? kept[0] : add_list(Expr::Kind::kSequence, kept);
}

ExprId GrammarRules::choice(const std::vector<ExprId>& parts) {
  std::vector<ExprId> kept;
  for (const ExprId part : parts) {
    if (part != nothing()) kept.push_back(part);
  }
  if (kept.empty()) return nothing();
  return kept.size() == 1 ? kept[0] : add_list(Expr::Kind::kChoice, kept);
}

ExprId GrammarRules::repeat(ExprId part, uint32_t min, uint32_t max) {
  CHECK(min <= max && min <= kMaxRepetition && (max <= kMaxRepetition || max == kUnbounded));
  if (max == 0 || part == empty()) return empty();
  if (part == nothing()) return min == 0 ? empty() : nothing();
  if (min == 1 && max == 1) return part;
  const ExprId id = add(
      {.kind = Expr::Kind::kRepeat, .a = static_cast<uint32_t>(children_.size()), .b = 1, .min = min, .max = max}, 2);
  if (id != nothing()) children_.push_back(part);
  return id;
}

ExprId GrammarRules::graph(ExprGraph graph) {
  const size_t size = graph.n_states + graph.edges.size() + graph.finals.size();
  const ExprId id = add({.kind = Expr::Kind::kGraph, .a = static_cast<uint32_t>(graphs_.size())}, size);
  if (id != nothing()) graphs_.push_back(std::move(graph));
  return id;
}

ExprId GrammarRules::call(RuleId rule) { return add({.kind = Expr::Kind::kRule, .a = rule}, 1); }

RuleId GrammarRules::add_rule(std::string name) {
  if (rules_.size() >= limits_.max_rules) {
    full_ = true;
    return 0;
  }
  if (!take(1 + name.size())) name.clear();
  rules_.push_back({std::move(name), nothing()});
  return static_cast<RuleId>(rules_.size() - 1);
}

RuleId GrammarRules::append(const GrammarRules& other) {
  if (!take(other.n_used_) || rules_.size() + other.rules_.size() > limits_.max_rules) {
    full_ = true;
    return 0;
  }
  const auto first_expr = static_cast<ExprId>(exprs_.size()), first_rule = static_cast<RuleId>(rules_.size());
  const auto first_child = static_cast<uint32_t>(children_.size());
  const auto moved = [&](ExprId id) { return id + first_expr; };
  for (Expr expr : other.exprs_) {
    switch (expr.kind) {
      case Expr::Kind::kNothing:
      case Expr::Kind::kEmpty:
      case Expr::Kind::kByteRange: break;
      case Expr::Kind::kBytes:
      case Expr::Kind::kToken: expr.a += static_cast<uint32_t>(texts_.size()); break;
      case Expr::Kind::kChars: expr.a += static_cast<uint32_t>(sets_.size()); break;
      case Expr::Kind::kSequence:
      case Expr::Kind::kChoice:
      case Expr::Kind::kRepeat: expr.a += first_child; break;
      case Expr::Kind::kRule: expr.a += first_rule; break;
      case Expr::Kind::kGraph: expr.a += static_cast<uint32_t>(graphs_.size()); break;
    }
    exprs_.push_back(expr);
  }
  for (const ExprId child : other.children_) children_.push_back(moved(child));
  texts_.insert(texts_.end(), other.texts_.begin(), other.texts_.end());
  sets_.insert(sets_.end(), other.sets_.begin(), other.sets_.end());
  for (ExprGraph graph : other.graphs_) {
    for (ExprGraph::Edge& edge : graph.edges) edge.label = moved(edge.label);
    graphs_.push_back(std::move(graph));
  }
  for (const Rule& rule : other.rules_) rules_.push_back({rule.name, moved(rule.expr)});
  return first_rule;
}

void GrammarRules::define(RuleId rule, ExprId expr) { rules_[rule].expr = expr; }

}  // namespace ibid
