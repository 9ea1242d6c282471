// Parameters: the arguments of a filter, test, function or method, bound to names as Python binds them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "templates/jinja/state.h"
#include "templates/jinja/value.h"

namespace ibid::jinja {

class Parameters {
 public:
  // Fails for too many positional, unknown or doubled named arguments, and where one of the first `required`
  // is missing. `arguments` must outlive it.
  Parameters(const Arguments& arguments, const char* function, std::initializer_list<const char*> names,
             size_t required = 0);

  // nullptr: not given.
  const Value* get(size_t i) const { return bound_[i]; }
  bool has(size_t i) const { return bound_[i] != nullptr; }
  const Value& at(size_t i) const { return *bound_[i]; }  // REQUIRES: has(i)
  Value value_or(size_t i, Value fallback) const { return has(i) ? at(i) : std::move(fallback); }

  bool flag(RenderState& state, size_t i, bool fallback) const;
  // Fails for what is no integer (None included).
  int64_t integer(size_t i, int64_t fallback) const;
  // As integer, but None counts as not given.
  int64_t integer_or_none(size_t i, int64_t fallback) const;
  // Fails for what is no string.
  const MarkedText& string(size_t i) const;

 private:
  const char* function_;
  std::vector<const Value*> bound_;
};

}  // namespace ibid::jinja
