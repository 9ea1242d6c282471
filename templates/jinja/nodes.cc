#include "templates/jinja/nodes.h"

#include <algorithm>
#include <string_view>

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

namespace {

// Jinja's filters that look at the context of a render.
bool needs_context(std::string_view filter) {
  return filter == "map" || filter == "select" || filter == "reject" || filter == "selectattr" ||
         filter == "rejectattr";
}

// Calls visit() for an expression and all below it until it returns false; whether it never did.
template <typename Visit>
bool visit_all(Expr& expr, const Visit& visit) {
  if (!visit(expr)) return false;
  for (const ExprPtr& child : expr.children) {
    if (child != nullptr && !visit_all(*child, visit)) return false;
  }
  if (expr.args == nullptr) return true;
  for (const ExprPtr& argument : expr.args->positional) {
    if (!visit_all(*argument, visit)) return false;
  }
  for (const auto& [name, argument] : expr.args->named) {
    if (!visit_all(*argument, visit)) return false;
  }
  for (const ExprPtr* unpacked : {&expr.args->unpacked_list, &expr.args->unpacked_dict}) {
    if (*unpacked != nullptr && !visit_all(**unpacked, visit)) return false;
  }
  return true;
}

}  // namespace

void note_constant_output(Expr& expr) {
  bool has_slice = false;
  const bool is_constant = visit_all(expr, [&has_slice](const Expr& part) {
    has_slice |= part.kind == ExprKind::kSlice;
    return part.kind != ExprKind::kName && part.kind != ExprKind::kNamespaceField && part.kind != ExprKind::kCall &&
           !(part.kind == ExprKind::kFilter && needs_context(part.text));
  });
  if (!is_constant || !has_slice) return;
  visit_all(expr, [](Expr& part) { return part.in_constant_output = true; });
}

}  // namespace ibid::jinja
