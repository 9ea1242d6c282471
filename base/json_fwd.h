// Declares Json for headers that only name the type, without including nlohmann's 25,000 lines. base/json_limits.h
// declares the functions.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace ibid {

template <class Key, class Value, class IgnoredLess, class Allocator>
struct JsonObject;

// Objects keep the order of their keys, because templates and tool arguments depend on it. Json is
// nlohmann::ordered_json with an object type of our own. So a program that links ibid and also uses ordered_json, in
// any version and with any compiler flags, shares no symbols with ibid.
using Json = nlohmann::basic_json<JsonObject>;

}  // namespace ibid
