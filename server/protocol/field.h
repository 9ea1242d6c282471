// Fields of request bodies: one table is what a parser reads by, what its errors say, and what the description of the
// endpoints (openapi.h) is made of, so that these cannot differ.
//
// A row says the name, the kind of value with its range, and what reads it. A field that is absent or null is not read.
// What no table names is ignored. A field that would change the answer and cannot be had is a row that refuses every
// value but the one that changes nothing. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "base/json_limits.h"
#include "server/protocol/fault.h"

namespace ibid::serve {

enum class Shape { kBoolean, kInteger, kNumber, kText, kList, kObject, kAny };
enum class Standing {
  kRead,
  kIgnored,  // of any value: it changes nothing that is answered
  kRefused,  // but for the value that changes nothing
};

struct FieldRule {
  std::string_view name;
  Shape shape = Shape::kAny;
  std::string_view about;   // what it does: a sentence for docs/http_api.md
  // Of numbers their range, of texts their bytes, of lists their entries; both ends are allowed.
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  Standing standing = Standing::kRead;
  std::string_view schema = {};  // as JSON, where shape and range do not say it all
  bool required = false;
};

template <typename Target>
struct Field {
  FieldRule rule;
  // Takes over a value of the rule's shape and range; nullptr: nothing is to be done. A fault's param goes on from the
  // field: "[2].content", empty for the field itself.
  MaybeFault (*read)(const Json& value, Target& target) = nullptr;
};

// Most keys that the object of a body may have.
inline constexpr size_t kMaxBodyKeys = 1024;

// The value of a key; nullptr: it is absent or null, or `object` is no object.
const Json* member(const Json& object, std::string_view name);

// Whether the value is of that shape and range; the fault's param is empty.
MaybeFault check_shape(const FieldRule& rule, const Json& value);

// REQUIRES: check_shape() found an integer.
int64_t integer_of(const Json& value);

// A body as a JSON object. Faults: cut, nested deeper than 64, with the same key twice, invalid UTF-8, a byte order
// mark, more than 2 million values or kMaxBodyKeys keys, no object.
MaybeFault parse_body(std::string_view text, Json& body);

// Reads what the table names, in the table's order. `path` stands in front of names: "options.".
template <typename Target>
MaybeFault read_fields(const Json& body, std::span<const Field<Target>> fields, Target& target,
                       std::string_view path = "") {
  for (const Field<Target>& field : fields) {
    const Json* value = member(body, field.rule.name);
    MaybeFault fault;
    if (value == nullptr) {
      if (field.rule.required) fault = Fault{.message = "is missing", .code = "missing_required_parameter"};
    } else {
      if (field.rule.standing != Standing::kIgnored) fault = check_shape(field.rule, *value);
      if (!fault && field.read != nullptr) fault = field.read(*value, target);
    }
    if (fault) {
      fault->param = std::string(path) + std::string(field.rule.name) + fault->param;
      return fault;
    }
  }
  return {};
}

// What reads a row that refuses: any value but false, 0, an empty text, an empty list or an empty object.
MaybeFault refuse(const Json& value);

// A row that refuses. about: what is asked for in its place, or why.
template <typename Target>
constexpr Field<Target> refused_field(std::string_view name, std::string_view about) {
  return {{name, Shape::kAny, about, 0, 0, Standing::kRefused},
          [](const Json& value, Target&) { return refuse(value); }};
}

// A row of what is read over, whatever it is.
template <typename Target>
constexpr Field<Target> ignored_field(std::string_view name, std::string_view about) {
  return {{name, Shape::kAny, about, 0, 0, Standing::kIgnored}};
}

}  // namespace ibid::serve
