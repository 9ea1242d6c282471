// Parses JSON from outside with nlohmann-json under limits: bytes, depth, values, duplicate keys. A first SAX pass only
// counts; the DOM is built after it, so a hostile text makes the process allocate nothing.
//
// Time and memory are linear in the text (except for sorting the keys of an object). Finding a key in the result is
// linear in the size of the object: iterate over large objects (vocabularies), do not index them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/json_fwd.h"
#include "base/result.h"

namespace ibid {

// The object type of Json: keys and values in their original order.
template <class Key, class Value, class IgnoredLess, class Allocator>
struct JsonObject : nlohmann::ordered_map<Key, Value, IgnoredLess, Allocator> {
  using nlohmann::ordered_map<Key, Value, IgnoredLess, Allocator>::ordered_map;
};

}  // namespace ibid

// Destroys a value without allocating. nlohmann's own destructor first collects all children on the heap; if memory is
// exhausted, it throws std::bad_alloc out of a destructor, which ends the process. This specialisation recurses
// instead, as the copy constructor does. It is the only instantiation: no other code uses ibid's object type.
template <>
void ibid::Json::json_value::destroy(value_t type);

namespace ibid {

// Maximum of JsonLimits::max_depth: writing, copying and destroying a DOM recurse once per level.
inline constexpr size_t kMaxJsonDepth = 1000;

struct JsonLimits {
  size_t max_bytes = 100'000'000;
  size_t max_depth = 64;
  size_t max_values = 20'000'000;  // objects, arrays, strings, numbers and literals together
  bool allow_duplicate_keys = false;
};

// Parses `text`. `what` names the source in messages ("config.json"). Errors: kLimitExceeded, kDuplicate, kBadHeader
// (syntax, with the byte offset; also invalid UTF-8 and trailing text), kBadNumber (a number beyond double, such as
// 1e400). If duplicate keys are allowed, the last value is kept, at the place of the first.
Result<Json> parse_json(std::string_view text, std::string_view what, const JsonLimits& limits = {});

// Serialises `value` compactly; invalid UTF-8 in strings becomes U+FFFD instead of an exception.
std::string json_to_string(const Json& value);

}  // namespace ibid
