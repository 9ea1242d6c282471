// JSON from outside, read with nlohmann-json behind limits: bytes, depth, values, duplicate keys.
// The DOM is built only after a SAX pass has counted, so a hostile text costs no memory.
//
// Time and memory are linear in the text (sorting the keys of an object apart). Looking a key up in the
// result is linear in the object's size: iterate over large objects (vocabularies), do not index them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/json_fwd.h"
#include "base/result.h"

namespace ibid {

// The object of Json: keys and values in the order in which they came.
template <class Key, class Value, class IgnoredLess, class Allocator>
struct JsonObject : nlohmann::ordered_map<Key, Value, IgnoredLess, Allocator> {
  using nlohmann::ordered_map<Key, Value, IgnoredLess, Allocator>::ordered_map;
};

}  // namespace ibid

// nlohmann's own destructor first lists all children on the heap. So without memory it cannot give memory back, and
// std::bad_alloc in a destructor ends the process. This one recurses, as the copy constructor does. It is written for
// our own type: nobody else can have instantiated it before.
template <>
void ibid::Json::json_value::destroy(value_t type);

namespace ibid {

// What a JsonLimits may ask for: writing, copying and destroying a DOM recurse once per level.
inline constexpr size_t kMaxJsonDepth = 1000;

struct JsonLimits {
  size_t max_bytes = 100'000'000;
  size_t max_depth = 64;
  size_t max_values = 20'000'000;   // objects, arrays, strings, numbers and literals together
  bool allow_duplicate_keys = false;
};

// Parses `text`. `what` names the source in messages ("config.json").
// Errors: kLimitExceeded, kDuplicate, kBadHeader (syntax, with the byte offset; also invalid UTF-8
// and trailing text), kBadNumber (a number beyond double, such as 1e400). Of duplicate keys that are
// allowed, the last value wins, in the place of the first.
Result<Json> parse_json(std::string_view text, std::string_view what, const JsonLimits& limits = {});

// `value` as compact JSON; invalid UTF-8 in strings becomes U+FFFD instead of an exception.
std::string json_to_string(const Json& value);

}  // namespace ibid
