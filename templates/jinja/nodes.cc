#include "templates/jinja/nodes.h"

#include <algorithm>

#include "templates/jinja/failure.h"

namespace ibid::jinja {

ExprPtr make_node(ExprKind kind, int line) {
  auto node = std::make_unique<Expr>();
  node->kind = kind;
  node->line = line;
  return node;
}

ExprPtr make_node(ExprKind kind, int line, ExprPtr child) {
  ExprPtr node = make_node(kind, line);
  adopt(*node, std::move(child));
  return node;
}

void adopt(Expr& parent, ExprPtr child) {
  if (child != nullptr) {
    parent.height = std::max(parent.height, child->height + 1);
    check_height(parent);
  }
  parent.children.push_back(std::move(child));
}

void check_height(const Expr& expr) {
  if (expr.height <= kMaxTreeHeight) return;
  fail_budget("template line " + std::to_string(expr.line) + ": an expression of more than " +
              std::to_string(kMaxTreeHeight) + " levels (budget: depth)");
}

ExprPtr make_binary(ExprKind kind, int line, ExprPtr left, ExprPtr right) {
  ExprPtr node = make_node(kind, line, std::move(left));
  adopt(*node, std::move(right));
  return node;
}

ExprPtr make_constant(Value value, int line) {
  ExprPtr node = make_node(ExprKind::kConstant, line);
  node->constant = std::move(value);
  return node;
}

}  // namespace ibid::jinja
