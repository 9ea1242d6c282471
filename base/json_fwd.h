// Json, for headers that only pass it on: they need not read nlohmann's 25,000 lines. base/json_limits.h has all of it.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace ibid {

template <class Key, class Value, class IgnoredLess, class Allocator>
struct JsonObject;

// Objects keep the order of their keys: templates and tool arguments depend on it. This is nlohmann::ordered_json under
// a type of our own. A program that links ibid and uses ordered_json itself thus shares none of its functions with us,
// whatever its version of nlohmann-json and however it was compiled.
using Json = nlohmann::basic_json<JsonObject>;

}  // namespace ibid
