#include "tests/grammar/grammar_twin.h"

#include <algorithm>

#include "base/utf8.h"

namespace ibid {

ReferenceMatcher::ReferenceMatcher(const GrammarRules& rules) : rules_(rules) { open({{rules.rule_expr(0), 0}}); }

bool ReferenceMatcher::read(std::string_view bytes) {
  return std::ranges::all_of(bytes, [&](char c) { return read(static_cast<uint8_t>(c)); });
}

bool ReferenceMatcher::read(uint8_t byte) {
  const std::set<Stack> before = std::exchange(stacks_, {});
  met_.clear();
  may_end_ = false;
  for (Stack stack : before) {
    const Frame frame = stack.back();
    stack.pop_back();
    bool done = false;
    for (const Frame& next : after(frame, byte, done)) {
      Stack longer = stack;
      longer.push_back(next);
      open(longer);
    }
    if (done) open(stack);
  }
  return may_end_ || !stacks_.empty();
}

// Returns what remains of a text or character after a byte. done: nothing remains.
std::vector<ReferenceMatcher::Frame> ReferenceMatcher::after(Frame frame, uint8_t byte, bool& done) const {
  const Expr& expr = rules_.expr(frame.expr);
  if (expr.kind == Expr::Kind::kByteRange) {
    done = expr.a <= byte && byte <= expr.b;
    return {};
  }
  if (expr.kind == Expr::Kind::kBytes) {
    const std::string& text = rules_.text(expr);
    if (static_cast<uint8_t>(text[frame.matched]) != byte) return {};
    done = frame.matched + 1 == text.size();
    return done ? std::vector<Frame>() : std::vector<Frame>{{frame.expr, frame.matched + 1}};
  }
  std::string begun;
  for (uint32_t rest = frame.matched; rest > 1; rest >>= 8) begun.insert(begun.begin(), static_cast<char>(rest & 0xFF));
  begun += static_cast<char>(byte);
  bool more = false;
  for (const std::string& text : spellings(expr)) {
    done |= text == begun;
    more |= text.size() > begun.size() && text.starts_with(begun);
  }
  if (!more) return {};
  return {{frame.expr, std::max(frame.matched, 1u) << 8 | byte}};
}

const std::vector<std::string>& ReferenceMatcher::spellings(const Expr& expr) const {
  if (spellings_.size() <= expr.a) spellings_.resize(expr.a + 1);
  std::vector<std::string>& out = spellings_[expr.a];
  if (!out.empty()) return out;
  for (const CodePointSet::Range& range : rules_.set(expr).ranges()) {
    for (uint32_t c = range.first; c <= range.last; ++c) utf8_append(out.emplace_back(), c);
  }
  return out;
}

void ReferenceMatcher::open_part(const Stack& rest, ExprId part) {
  Stack stack = rest;
  stack.push_back({part, 0});
  open(stack);
}

void ReferenceMatcher::open(const Stack& stack) {
  if (!met_.insert(stack).second) return;
  if (stack.empty()) {
    may_end_ = true;
    return;
  }
  const Frame frame = stack.back();
  const Expr& expr = rules_.expr(frame.expr);
  Stack rest(stack.begin(), stack.end() - 1);
  const auto with = [&](uint32_t matched) {
    Stack out = rest;
    out.push_back({frame.expr, matched});
    return out;
  };
  switch (expr.kind) {
    case Expr::Kind::kNothing:
    case Expr::Kind::kToken: return;  // it reads bytes
    case Expr::Kind::kEmpty: return open(rest);
    case Expr::Kind::kBytes:
    case Expr::Kind::kChars:
    case Expr::Kind::kByteRange: stacks_.insert(stack); return;
    case Expr::Kind::kRule: return open_part(rest, rules_.rule_expr(expr.a));
    case Expr::Kind::kChoice:
      for (size_t i = 0; i < expr.b; ++i) open_part(rest, rules_.child(expr, i));
      return;
    case Expr::Kind::kSequence:
      if (frame.matched == expr.b) return open(rest);
      return open_part(with(frame.matched + 1), rules_.child(expr, frame.matched));
    case Expr::Kind::kRepeat: {
      if (frame.matched >= expr.min) open(rest);
      if (frame.matched == expr.max) return;
      const uint32_t next = expr.max == kUnbounded ? std::min(frame.matched + 1, expr.min) : frame.matched + 1;
      return open_part(with(next), rules_.child(expr, 0));
    }
    case Expr::Kind::kGraph: {
      const ExprGraph& graph = rules_.graph(expr);
      if (std::ranges::find(graph.finals, frame.matched) != graph.finals.end()) open(rest);
      for (const ExprGraph::Edge& edge : graph.edges) {
        if (edge.from == frame.matched) open_part(with(edge.to), edge.label);
      }
      return;
    }
  }
}

}  // namespace ibid
