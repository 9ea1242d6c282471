// cycler() and joiner() of Jinja: objects that change with each use. They are kept as namespaces (state.h), whose first
// attribute has a name that no template can write.
#pragma once

#include <optional>
#include <string_view>

#include "templates/jinja/state.h"
#include "templates/jinja/value.h"

namespace ibid::jinja {

Value make_cycler(Evaluator& in, const Arguments& args);
Value make_joiner(Evaluator& in, const Arguments& args);

bool is_cycler(const RenderState& state, const Value& value);
bool is_joiner(const RenderState& state, const Value& value);

// next, reset and current of a cycler; nullopt for other values and names.
std::optional<Value> cycler_attribute(const RenderState& state, const Value& value, std::string_view name);
// The empty text at the first call, then the separator. REQUIRES: is_joiner().
Value call_joiner(RenderState& state, const Value& joiner, const Arguments& args);

}  // namespace ibid::jinja
