// Fields of request bodies. The parser, its errors and the description of the endpoints (openapi.cc) use the same
// table, so that they cannot differ.
//
// A row has the name, the type and range of the value, its neutral values, and its reader. A field that is absent, null
// or neutral is not read. A field that would change the answer but is not supported has a row that refuses all values
// except the neutral ones. Fields that have no effect, or are in no table, are reported (note_ignored()). Pure
// functions, which throw Fault.
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

#include "base/json_members.h"
#include "server/protocol/fault.h"
#include "server/service/request.h"

namespace ibid::serve {

enum class Shape { kBoolean, kInteger, kNumber, kText, kList, kObject, kAny };
enum class Standing {
  kRead,
  kIgnored,  // any value is allowed, and has no effect on the answer
  kRefused,  // values are refused, except neutral ones
};

struct FieldRule {
  std::string_view name;
  Shape shape = Shape::kAny;
  std::string_view about;  // effect of the field: a sentence for docs/http_api.md
  // The range of a number, of a text's size in bytes, or of a list's number of entries. Both ends are allowed.
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  Standing standing = Standing::kRead;
  std::string_view schema = {};  // JSON schema, if shape and range do not describe the value
  bool required = false;
  // Values that mean the same as no field: a JSON list of values, and of ranges of numbers such as {"maximum": 0}.
  std::string_view neutral = {};
};

template <typename Target>
struct Field {
  FieldRule rule;
  // Stores a value that has the rule's shape and range; nullptr: the value is ignored. The param of a fault is relative
  // to the field: "[2].content", or empty for the field itself.
  void (*read)(const Json& value, Target& target) = nullptr;
};

// Maximum number of keys in a body.
inline constexpr size_t kMaxBodyKeys = 1024;

// Returns the text of a key. Fault if it is not a text or has fewer than `least` bytes; the param is ".name".
const std::string& need_text(const Json& object, std::string_view name, size_t least = 0);
// Returns the text of the key "type"; empty if there is no such text.
std::string_view type_of(const Json& object);
// True if the value is this text.
bool is_text(const Json& value, std::string_view text);

// Fault, with an empty param, if the value does not have the rule's shape and range.
void check_shape(const FieldRule& rule, const Json& value);

// Return the rule's neutral values as JSON, and whether `value` is neutral.
Json neutral_values(const FieldRule& rule);
bool is_neutral(const FieldRule& rule, const Json& value);

// Returns `value`, which check_shape() has accepted as an integer.
int64_t integer_of(const Json& value);

Fault unsupported_field();

// Parses a body, which must be a JSON object. Faults: truncated, nested deeper than 64, duplicate keys, invalid UTF-8,
// a byte order mark, more than 2 million values or kMaxBodyKeys keys, not an object.
Json parse_body(std::string_view text);

// Calls `read`. If it throws a fault, puts `place` (".content") before the fault's param.
template <typename Read>
void read_at(std::string_view place, const Read& read) {
  try {
    read();
  } catch (Fault& fault) {
    fault.param.insert(0, place);
    throw;
  }
}

// Returns "[2]" for 2.
inline std::string place_in_list(size_t i) { return "[" + std::to_string(i) + "]"; }

// Calls `read` with each entry of a list. If it throws a fault, puts the entry's index before the fault's param.
template <typename Read>
void read_each(const Json& list, const Read& read) {
  for (size_t i = 0; i < list.size(); ++i) read_at(place_in_list(i), [&] { read(list[i]); });
}

// Reads the fields of the table, in its order. `path` precedes their names in faults: "options.".
template <typename Target>
void read_fields(const Json& body, std::span<const Field<Target>> fields, Target& target, std::string_view path = "") {
  for (const Field<Target>& field : fields) {
    try {
      const Json* value = member(body, field.rule.name);
      if (value == nullptr && field.rule.required) throw missing_field();
      if (value == nullptr || is_neutral(field.rule, *value)) continue;
      if (field.rule.standing == Standing::kRefused && field.read == nullptr) throw unsupported_field();
      if (field.rule.standing != Standing::kIgnored) check_shape(field.rule, *value);
      if (field.read != nullptr) field.read(*value, target);
    } catch (Fault& fault) {
      fault.param.insert(0, std::string(path).append(field.rule.name));
      throw;
    }
  }
}

// Store a value in a member, converted to the member's type.
inline void store(const Json& value, bool& member) { member = value.get<bool>(); }
inline void store(const Json& value, double& member) { member = value.get<double>(); }
inline void store(const Json& value, size_t& member) { member = static_cast<size_t>(integer_of(value)); }
inline void store(const Json& value, std::string& member) { member = value.get<std::string>(); }
inline void store(const Json& value, Json& member) { member = value; }
template <typename Kind>
void store(const Json& value, std::optional<Kind>& member) {
  store(value, member.emplace());
}

// A `read` function that only sets a member, or a member of a member: set<&Call::request, &Request::n>.
template <auto Member, auto... Inner, typename Target>
void set(const Json& value, Target& target) {
  if constexpr (sizeof...(Inner) > 0) {
    set<Inner...>(value, target.*Member);
  } else {
    store(value, target.*Member);
  }
}

// Adapts a `read` function for AnswerRequest to a call that contains an AnswerRequest.
template <auto Read, typename Call>
void of_request(const Json& value, Call& call) {
  Read(value, call.request);
}

// The neutral values of most fields.
inline constexpr std::string_view kDefaultNeutral = R"([false,0,"",[],{}])";

// A row that refuses all values but the neutral ones. about: the alternative, or the reason.
template <typename Target>
constexpr Field<Target> refused_field(std::string_view name, std::string_view about,
                                      std::string_view neutral = kDefaultNeutral) {
  return {{name, Shape::kAny, about, 0, 0, Standing::kRefused, "", false, neutral}};
}

// A row for a field whose value is ignored; values that are not neutral are reported.
template <typename Target>
constexpr Field<Target> ignored_field(std::string_view name, std::string_view about,
                                      std::string_view neutral = kDefaultNeutral) {
  return {{name, Shape::kAny, about, 0, 0, Standing::kIgnored, "", false, neutral}};
}

// Returns `field` with other neutral values.
template <typename Target>
constexpr Field<Target> with_neutral(Field<Target> field, std::string_view neutral) {
  field.rule.neutral = neutral;
  return field;
}

// Adds the fields of an object that have no effect: those of kIgnored rules, and those without a rule. `path` is a
// prefix of their names: "options.".
void note_ignored(const Json& object, std::span<const FieldRule> rules, IgnoredParts& ignored,
                  std::string_view path = "");

// Adds the rules of a table to those of a body. A rule that the body already has replaces the table's rule of the same
// name.
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
