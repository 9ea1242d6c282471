// Elements and slices of texts, sequences and the messages, as Python has them, and how Jinja speaks of what
// is missing.
#pragma once

#include <string>

#include "templates/jinja/state.h"
#include "templates/jinja/value.h"

namespace ibid::jinja {

// How Jinja calls an object in "... has no attribute".
std::string object_name(const Value& value);
Value no_attribute(const Value& object, const std::string& name);

// object[key] where that is an element; undefined where Python raises LookupError or TypeError.
// REQUIRES: key is integral; object is a string, is_indexable() or the messages.
Value indexed(RenderState& state, const Value& object, const Value& key);
// object[start:stop:step]; None where a bound is not given.
Value slice(RenderState& state, const Value& object, const Value& start, const Value& stop, const Value& step);

}  // namespace ibid::jinja
