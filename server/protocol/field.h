// Fields of request bodies: the parser, its errors and the description of the endpoints (openapi.cc) are made of one
// table, so that they cannot differ.
//
// A row says the name, the kind of value with its range, and what reads it. A field that is absent or null is not read.
// What no table names is ignored. A field that would change the answer and cannot be had is a row that refuses every
// value but the one that changes nothing. Pure functions, which throw Fault.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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
  std::string_view about;  // what it does: a sentence for docs/http_api.md
  // The range of a number, of the bytes of a text, or of the entries of a list; both ends are allowed.
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
  void (*read)(const Json& value, Target& target) = nullptr;
};

// Most keys that the object of a body may have.
inline constexpr size_t kMaxBodyKeys = 1024;

// The value of a key; nullptr: it is absent or null, or `object` is no object.
const Json* member(const Json& object, std::string_view name);
// The text of a key. Fault: it has none, or one of fewer bytes than `least`; the param is ".name".
const std::string& need_text(const Json& object, std::string_view name, size_t least = 0);
// The text of the key "type"; empty: it has none.
std::string_view type_of(const Json& object);
// Whether the value is this text.
bool is_text(const Json& value, std::string_view text);

// Fault: the value is not of that shape and range; its param is empty.
void check_shape(const FieldRule& rule, const Json& value);

// REQUIRES: check_shape() found an integer.
int64_t integer_of(const Json& value);

// A body as a JSON object. Faults: cut, nested deeper than 64, with the same key twice, invalid UTF-8, a byte order
// mark, more than 2 million values or kMaxBodyKeys keys, no object.
Json parse_body(std::string_view text);

// Reads what the table names, in the table's order. `path` comes before names: "options.".
template <typename Target>
void read_fields(const Json& body, std::span<const Field<Target>> fields, Target& target, std::string_view path = "") {
  for (const Field<Target>& field : fields) {
    try {
      const Json* value = member(body, field.rule.name);
      if (value == nullptr && field.rule.required) throw missing_field();
      if (value == nullptr) continue;
      if (field.rule.standing != Standing::kIgnored) check_shape(field.rule, *value);
      if (field.read != nullptr) field.read(*value, target);
    } catch (Fault& fault) {
      fault.param.insert(0, std::string(path).append(field.rule.name));
      throw;
    }
  }
}

// A value as a member of its kind.
inline void store(const Json& value, bool& member) { member = value.get<bool>(); }
inline void store(const Json& value, double& member) { member = value.get<double>(); }
inline void store(const Json& value, size_t& member) { member = static_cast<size_t>(integer_of(value)); }
inline void store(const Json& value, std::string& member) { member = value.get<std::string>(); }
inline void store(const Json& value, Json& member) { member = value; }
template <typename Kind>
void store(const Json& value, std::optional<Kind>& member) {
  store(value, member.emplace());
}

// Reader of a row that only sets a member, or a member of a member: set<&Call::request, &Request::n>.
template <auto Member, auto... Inner, typename Target>
void set(const Json& value, Target& target) {
  if constexpr (sizeof...(Inner) > 0) {
    set<Inner...>(value, target.*Member);
  } else {
    store(value, target.*Member);
  }
}

// A reader of answer requests as that of a call which has one.
template <auto Read, typename Call>
void of_request(const Json& value, Call& call) {
  Read(value, call.request);
}

// Refuses every value but false, 0, an empty text, an empty list and an empty object.
void refuse(const Json& value);

// A row that refuses. about: what to ask for instead, or why.
template <typename Target>
constexpr Field<Target> refused_field(std::string_view name, std::string_view about) {
  return {{name, Shape::kAny, about, 0, 0, Standing::kRefused}, [](const Json& value, Target&) { refuse(value); }};
}

// A row of a field that may have any value and is not looked at.
template <typename Target>
constexpr Field<Target> ignored_field(std::string_view name, std::string_view about) {
  return {{name, Shape::kAny, about, 0, 0, Standing::kIgnored}};
}

// Adds the rules of a table to those of a body. A rule that is there stays: a protocol's own row of a field replaces
// the shared one of that name.
template <typename Target>
void append_rules(std::vector<FieldRule>& rules, std::span<const Field<Target>> fields) {
  for (const Field<Target>& field : fields) {
    const bool is_there =
        std::ranges::any_of(rules, [&](const FieldRule& rule) { return rule.name == field.rule.name; });
    if (!is_there) rules.push_back(field.rule);
  }
}
template <typename Target>
std::vector<FieldRule> rules_of(std::span<const Field<Target>> fields) {
  std::vector<FieldRule> rules;
  append_rules(rules, fields);
  return rules;
}

}  // namespace ibid::serve
