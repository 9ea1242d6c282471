// How the parsers make the nodes of expressions (ast.h). Each function keeps the height of a tree up to date
// and fails where it becomes higher than kMaxTreeHeight.
#pragma once

#include "templates/jinja/ast.h"

namespace ibid::jinja {

ExprPtr make_node(ExprKind kind, int line);
ExprPtr make_node(ExprKind kind, int line, ExprPtr child);
ExprPtr make_binary(ExprKind kind, int line, ExprPtr left, ExprPtr right);
ExprPtr make_constant(Value value, int line);
// Adds a child, which may be nullptr.
void adopt(Expr& parent, ExprPtr child);
void check_height(const Expr& expr);
// Notes in the slices of a printed expression that all of it is constant. Jinja computes such an expression when it
// compiles, where a slice that Python refuses is undefined.
void note_constant_output(Expr& expr);

}  // namespace ibid::jinja
