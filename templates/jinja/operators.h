// Python's operators on values. Failures carry Python's words.
#pragma once

#include "templates/jinja/ast.h"
#include "templates/jinja/state.h"
#include "templates/jinja/value.h"

namespace ibid::jinja {

bool truthy(RenderState& state, const Value& value);
bool equals(RenderState& state, const Value& a, const Value& b);
// a < b; fails for types without an order. `sign` is the operator's text in the message.
bool less(RenderState& state, const Value& a, const Value& b, const char* sign = "<");
bool contains(RenderState& state, const Value& container, const Value& item);
bool compare(RenderState& state, CompareOp op, const Value& a, const Value& b);

// + - * / // % ** ; messages are resolved by the caller.
Value arithmetic(RenderState& state, ExprKind op, const Value& a, const Value& b);
Value negate(const Value& value);
Value plus(const Value& value);

}  // namespace ibid::jinja
