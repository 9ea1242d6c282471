// Json, for headers that only name it, without nlohmann's 25,000 lines. The rest is in base/json_limits.h.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace ibid {

template <class Key, class Value, class IgnoredLess, class Allocator>
struct JsonObject;

// Objects keep the order of their keys: templates and tool arguments depend on it. This is nlohmann::ordered_json with
// an object type of our own, so that a program that links ibid and uses ordered_json itself shares no symbols with it,
// whatever its version and compiler flags.
using Json = nlohmann::basic_json<JsonObject>;

}  // namespace ibid
