// The methods and attributes of Python's types that a template may reach.
#pragma once

#include <string>
#include <string_view>

#include "templates/jinja/value.h"

namespace ibid::jinja {

// A method of the type of `value`; nullptr when it has none of that name.
Method find_method(const Value& value, std::string_view name);
Method find_string_method(std::string_view name);
Method find_string_class_method(std::string_view name);  // isdigit and its kin

// True for attributes that the sandbox hides: what would change the object, and names that begin with "__".
bool is_unsafe_attribute(const Value& value, std::string_view name);

}  // namespace ibid::jinja
