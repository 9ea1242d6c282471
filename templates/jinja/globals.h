// The functions that every template finds: range, namespace, dict, raise_exception, strftime_now.
#pragma once

#include <string_view>

#include "templates/jinja/value.h"

namespace ibid::jinja {

// nullptr: there is none of that name.
Function find_global(std::string_view name);

}  // namespace ibid::jinja
