#include "templates/jinja/arguments.h"

#include "templates/jinja/collections.h"
#include "templates/jinja/failure.h"
#include "templates/jinja/operators.h"

namespace ibid::jinja {

Parameters::Parameters(const Arguments& arguments, const char* function,
                       std::initializer_list<const char*> names, size_t required)
    : function_(function), bound_(names.size(), nullptr) {
  const std::string name = function;
  if (arguments.positional.size() > names.size()) {
    fail(name + "() takes " + std::to_string(names.size()) + " arguments but " +
         std::to_string(arguments.positional.size()) + " were given");
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) bound_[i] = &arguments.positional[i];
  for (const auto& [key, value] : arguments.named) {
    size_t i = 0;
    for (const char* candidate : names) {
      if (key == candidate) break;
      ++i;
    }
    if (i == names.size()) fail(name + "() got an unexpected keyword argument '" + key + "'");
    if (bound_[i] != nullptr) fail(name + "() got multiple values for argument '" + key + "'");
    bound_[i] = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (bound_[i] == nullptr) {
      fail(name + "() missing required argument: '" + std::string(*(names.begin() + i)) + "'");
    }
  }
}

bool Parameters::flag(RenderState& state, size_t i, bool fallback) const {
  return has(i) ? truthy(state, at(i)) : fallback;
}

int64_t Parameters::integer(size_t i, int64_t fallback) const {
  if (!has(i)) return fallback;
  if (at(i).is_undefined()) fail(at(i).undefined_message());
  if (!at(i).is_integral()) {
    fail("'" + std::string(type_name(at(i))) + "' object cannot be interpreted as an integer");
  }
  return at(i).as_int();
}

int64_t Parameters::integer_or_none(size_t i, int64_t fallback) const {
  return has(i) && at(i).is_none() ? fallback : integer(i, fallback);
}

const MarkedText& Parameters::string(size_t i) const {
  if (at(i).is_undefined()) fail(at(i).undefined_message());
  if (!at(i).is_string()) {
    fail(std::string(function_) + "() argument must be str, not " + std::string(type_name(at(i))));
  }
  return at(i).as_string();
}

}  // namespace ibid::jinja
