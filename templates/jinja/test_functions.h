// What can stand behind `is`, by name.
#pragma once

#include <string_view>

#include "templates/jinja/ast.h"

namespace ibid::jinja {

// nullptr: there is none of that name.
Test find_test(std::string_view name);

}  // namespace ibid::jinja
