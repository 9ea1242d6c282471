// Reads objects and arrays that are written as tags, in forms where a value ends with its key again:
// <point><x>1</x><y>2</y></point>, <names><item>a</item><item>b</item></names>. A pure function.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "templates/reply/reply_format.h"

namespace ibid {

// Returns the value as JSON; nullopt if the text is not one or more whole elements. All elements named "item" are an
// array. schema: that of the value, within `root`; the values inside have the types that it allows.
std::optional<std::string> nested_value_json(std::string_view text, const ParameterSyntax& syntax, const Json& schema,
                                             const Json& root);

}  // namespace ibid
