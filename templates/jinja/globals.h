// The functions that every template finds: range, namespace, dict, cycler, joiner, raise_exception, strftime_now.
#pragma once

#include <string_view>

#include "templates/jinja/value.h"

namespace ibid::jinja {

// nullptr: there is none of that name.
Function find_global(std::string_view name);
// dict.fromkeys(keys, value).
Value dict_from_keys(Evaluator& in, const Arguments& args);

}  // namespace ibid::jinja
