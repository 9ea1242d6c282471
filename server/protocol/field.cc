#include "server/protocol/field.h"

#include <cmath>

#include "base/check.h"
#include "base/text.h"
#include "templates/message.h"

namespace ibid::serve {

namespace {

constexpr JsonLimits kBodyLimits = {.max_bytes = 1u << 30, .max_depth = 64, .max_values = 2'000'000};
// Above this, a double no longer represents every integer.
constexpr double kExactIntegers = 9007199254740992.0;

std::string limit_text(double limit) {
  return limit == 0x1p64 ? "18446744073709551615" : number_text(limit);  // 2^64 - 1, which no double represents
}

// Describes a range: "0 to 2", "at least 1", "at most 2"; empty: no limit.
std::string range_text(const FieldRule& rule) {
  const bool has_least = std::isfinite(rule.least), has_most = std::isfinite(rule.most);
  if (has_least && has_most) return limit_text(rule.least) + " to " + limit_text(rule.most);
  if (has_least) return "at least " + limit_text(rule.least);
  return has_most ? "at most " + limit_text(rule.most) : std::string();
}

std::string wanted_number(const FieldRule& rule) {
  const std::string kind = rule.shape == Shape::kInteger ? "must be a whole number" : "must be a number";
  const std::string range = range_text(rule);
  return range.empty() ? kind : kind + ", " + range;
}

bool is_inside(const FieldRule& rule, double value) { return value >= rule.least && value <= rule.most; }

bool is_whole(const Json& value) {
  if (value.is_number_integer()) return true;
  if (!value.is_number_float()) return false;
  const double number = value.get<double>();
  return std::abs(number) <= kExactIntegers && number == std::floor(number);
}

const char* kind_text(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null: return "null";
    case Json::value_t::boolean: return "a boolean";
    case Json::value_t::string: return "a string";
    case Json::value_t::array: return "a list";
    case Json::value_t::object: return "an object";
    default: return "a number";
  }
}

Fault wrong_kind(const std::string& wanted, const Json& value) {
  return {.message = wanted + ", not " + kind_text(value), .code = "invalid_type"};
}

void check_number(const FieldRule& rule, const Json& value) {
  if (!value.is_number()) throw wrong_kind(wanted_number(rule), value);
  const double number = value.get<double>();
  if ((rule.shape != Shape::kInteger || is_whole(value)) && is_inside(rule, number)) return;
  throw Fault{.message = wanted_number(rule) + ", not " + json_to_string(value)};
}

// Checks the number of bytes of a text or of entries of a list.
void check_size(const FieldRule& rule, size_t size, const char* wanted, const char* unit) {
  if (is_inside(rule, static_cast<double>(size))) return;
  throw Fault{.message = std::string("must be ") + wanted + " of " + range_text(rule) + " " + unit + ", not of " +
                         std::to_string(size)};
}

}  // namespace

const std::string& need_text(const Json& object, std::string_view name, size_t least) {
  const std::string* text = text_member(object, name);
  if (text == nullptr || text->size() < least) throw wrong_type("must be a string", "." + std::string(name));
  return *text;
}

std::string_view type_of(const Json& object) {
  const std::string* type = text_member(object, "type");
  return type == nullptr ? std::string_view() : *type;
}

bool is_text(const Json& value, std::string_view text) {
  return value.is_string() && value.get_ref<const std::string&>() == text;
}

void check_shape(const FieldRule& rule, const Json& value) {
  switch (rule.shape) {
    case Shape::kAny: return;
    case Shape::kBoolean:
      if (!value.is_boolean()) throw wrong_kind("must be true or false", value);
      return;
    case Shape::kInteger:
    case Shape::kNumber: return check_number(rule, value);
    case Shape::kText:
      if (!value.is_string()) throw wrong_kind("must be a string", value);
      return check_size(rule, value.get_ref<const std::string&>().size(), "a string", "bytes");
    case Shape::kList:
      if (!value.is_array()) throw wrong_kind("must be a list", value);
      return check_size(rule, value.size(), "a list", "entries");
    case Shape::kObject:
      if (!value.is_object()) throw wrong_kind("must be an object", value);
      return;
  }
}

int64_t integer_of(const Json& value) {
  if (value.is_number_float()) return static_cast<int64_t>(value.get<double>());
  return value.get<int64_t>();
}

Json parse_body(std::string_view text) {
  const auto check = [](bool is_sound, std::string message) {
    if (!is_sound) throw Fault{.message = std::move(message), .code = "invalid_json"};
  };
  check(!text.starts_with("\xEF\xBB\xBF"), "the body begins with a byte order mark; JSON has none");
  Result<Json> parsed = parse_json(text, "the body", kBodyLimits);
  check(parsed.ok(), parsed.ok() ? "" : parsed.status().message());
  check(parsed->is_object(), "the body must be a JSON object");
  check(parsed->size() <= kMaxBodyKeys, "the body has more than " + std::to_string(kMaxBodyKeys) + " keys");
  return std::move(*parsed);
}

bool is_neutral(const FieldRule& rule, const Json& value) {
  if (rule.neutral.empty()) return false;
  for (const Json& neutral : neutral_values(rule)) {
    const Json* least = member(neutral, "minimum");
    const Json* most = member(neutral, "maximum");
    if (least == nullptr && most == nullptr) {
      if (neutral == value) return true;
    } else if (value.is_number()) {
      const double number = value.get<double>();
      if ((least == nullptr || number >= least->get<double>()) && (most == nullptr || number <= most->get<double>())) {
        return true;
      }
    }
  }
  return false;
}

Json neutral_values(const FieldRule& rule) {
  if (rule.neutral.empty()) return Json::array();
  Result<Json> list = parse_json(rule.neutral, rule.name);
  CHECK(list.ok() && list->is_array()) << rule.name;
  return *std::move(list);
}

Fault unsupported_field() { return {.message = "is not supported", .code = "unsupported_parameter"}; }

void note_ignored(const Json& object, std::span<const FieldRule> rules, IgnoredParts& ignored, std::string_view path) {
  constexpr size_t kMaxNameBytes = 64;
  if (!object.is_object()) return;
  for (const auto& [name, value] : object.get_ref<const Json::object_t&>()) {
    if (value.is_null()) continue;
    const auto rule = std::ranges::find(rules, std::string_view(name), &FieldRule::name);
    const std::string field = std::string(path) + name.substr(0, kMaxNameBytes);
    if (rule == rules.end()) {
      ignore(ignored, {.field = field, .reason = "is not a known field", .is_clients_own = true});
    } else if (rule->standing == Standing::kIgnored && !is_neutral(*rule, value)) {
      ignore(ignored, {.field = field, .reason = std::string(rule->about.empty() ? "has no effect" : rule->about)});
    }
  }
}

}  // namespace ibid::serve
