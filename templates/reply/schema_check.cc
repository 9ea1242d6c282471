#include "templates/reply/schema_check.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

#include "base/json_members.h"
#include "base/utf8.h"

namespace ibid {

const Json* referred_schema(const Json& root, std::string_view reference) {
  if (!reference.starts_with('#')) return nullptr;
  const Json* at = &root;
  for (std::string_view rest = reference.substr(1); at != nullptr && !rest.empty();) {
    if (rest.front() != '/') return nullptr;
    const std::string_view part = rest.substr(1, rest.find('/', 1) - 1);
    rest.remove_prefix(1 + part.size());
    std::string key;
    for (size_t i = 0; i < part.size(); ++i) {  // unescapes ~0 and ~1 (RFC 6901)
      const bool escaped = part[i] == '~' && i + 1 < part.size();
      key += !escaped ? part[i] : part[++i] == '0' ? '~' : '/';
    }
    at = find_member(*at, key);
  }
  return at;
}

namespace {

constexpr size_t kMaxDepth = 40;
constexpr size_t kMaxSchemas = 20'000;

bool is_of_type(const Json& value, std::string_view type) {
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  if (type == "number") return value.is_number();
  if (type != "integer") return true;  // an unknown type allows every value
  if (!value.is_number()) return false;
  return !value.is_number_float() || std::trunc(value.get<double>()) == value.get<double>();
}

// Evaluates one schema and the schemas inside it. Used once.
class SchemaCheck {
 public:
  explicit SchemaCheck(const Json& root) : root_(root) {}

  bool accepts(const Json& schema, const Json& value, size_t depth) {
    if (schema.is_boolean()) return schema.get<bool>();
    if (!schema.is_object()) return true;
    if (depth == 0 || n_left_ == 0) {
      gave_up_ = true;
      return false;
    }
    --n_left_;
    if (const Json* reference = find_member(schema, "$ref"); reference != nullptr && reference->is_string()) {
      const Json* found = referred_schema(root_, reference->get_ref<const std::string&>());
      if (found == nullptr || !accepts(*found, value, depth - 1)) return false;
    }
    return type_fits(schema, value) && choices_fit(schema, value, depth - 1) && numbers_fit(schema, value) &&
           items_fit(schema, value, depth - 1) && members_fit(schema, value, depth - 1);
  }

  // True if the schema was too deep or too large to be checked, so that accepts() returned false; inside `not` this
  // result would be wrong.
  bool gave_up() const { return gave_up_; }

 private:
  static bool type_fits(const Json& schema, const Json& value) {
    if (const Json* only = find_member(schema, "const"); only != nullptr && *only != value) return false;
    const Json* values = find_member(schema, "enum");
    if (values != nullptr && values->is_array() && std::find(values->begin(), values->end(), value) == values->end()) {
      return false;
    }
    const Json* type = find_member(schema, "type");
    if (type == nullptr) return true;
    if (value.is_null() && schema.contains("nullable") && schema["nullable"] == Json(true)) return true;
    if (type->is_string()) return is_of_type(value, type->get_ref<const std::string&>());
    if (!type->is_array()) return true;
    return std::any_of(type->begin(), type->end(), [&](const Json& one) {
      return one.is_string() && is_of_type(value, one.get_ref<const std::string&>());
    });
  }

  bool choices_fit(const Json& schema, const Json& value, size_t depth) {
    const auto n_that_fit = [&](const Json& schemas) {
      size_t n = 0;
      for (const Json& one : schemas) n += accepts(one, value, depth) ? 1 : 0;
      return n;
    };
    const Json *any = find_member(schema, "anyOf"), *one = find_member(schema, "oneOf"),
               *all = find_member(schema, "allOf"), *none = find_member(schema, "not");
    if (any != nullptr && any->is_array() && n_that_fit(*any) == 0) return false;
    if (one != nullptr && one->is_array() && n_that_fit(*one) != 1) return false;
    if (all != nullptr && all->is_array() && n_that_fit(*all) != all->size()) return false;
    return none == nullptr || !accepts(*none, value, depth);
  }

  // True if `amount` is within the limits that the schema's keywords named `least` and `most` set.
  static bool is_within(const Json& schema, double amount, const char* least, const char* most) {
    const Json *low = find_member(schema, least), *high = find_member(schema, most);
    if (low != nullptr && low->is_number() && amount < low->get<double>()) return false;
    return high == nullptr || !high->is_number() || amount <= high->get<double>();
  }

  static bool numbers_fit(const Json& schema, const Json& value) {
    if (value.is_string()) {
      const double n = static_cast<double>(utf8_length(value.get_ref<const std::string&>()));
      return is_within(schema, n, "minLength", "maxLength");
    }
    if (!value.is_number()) return true;
    const double number = value.get<double>();
    const Json *above = find_member(schema, "exclusiveMinimum"), *below = find_member(schema, "exclusiveMaximum"),
               *step = find_member(schema, "multipleOf");
    if (above != nullptr && above->is_number() && number <= above->get<double>()) return false;
    if (below != nullptr && below->is_number() && number >= below->get<double>()) return false;
    if (step != nullptr && step->is_number() && step->get<double>() > 0) {
      const double quotient = number / step->get<double>();
      if (std::abs(quotient - std::round(quotient)) > 1e-9 * std::max(1.0, std::abs(quotient))) return false;
    }
    return is_within(schema, number, "minimum", "maximum");
  }

  bool items_fit(const Json& schema, const Json& value, size_t depth) {
    if (!value.is_array()) return true;
    if (!is_within(schema, static_cast<double>(value.size()), "minItems", "maxItems")) return false;
    const Json* first = find_member(schema, "prefixItems");
    const Json* items = find_member(schema, "items");
    const size_t n_first = first != nullptr && first->is_array() ? first->size() : 0;
    for (size_t i = 0; i < value.size(); ++i) {
      const Json* one = i < n_first ? &(*first)[i] : items;
      if (one != nullptr && !accepts(*one, value[i], depth)) return false;
    }
    return true;
  }

  bool members_fit(const Json& schema, const Json& value, size_t depth) {
    if (!value.is_object()) return true;
    if (!is_within(schema, static_cast<double>(value.size()), "minProperties", "maxProperties")) return false;
    if (const Json* required = find_member(schema, "required"); required != nullptr && required->is_array()) {
      for (const Json& key : *required) {
        if (key.is_string() && !value.contains(key.get_ref<const std::string&>())) return false;
      }
    }
    const Json* properties = find_member(schema, "properties");
    const Json* others = find_member(schema, "additionalProperties");
    constexpr const char* kAboutOthers[] = {"patternProperties", "$ref", "allOf", "anyOf", "oneOf"};
    const bool closed = properties != nullptr && others == nullptr &&
                        std::none_of(std::begin(kAboutOthers), std::end(kAboutOthers),
                                     [&](const char* keyword) { return schema.contains(keyword); });
    for (const auto& [key, member] : value.items()) {
      const Json* listed = properties == nullptr ? nullptr : find_member(*properties, key);
      if (listed == nullptr && closed) return false;
      if (listed == nullptr && others != nullptr && schema.contains("patternProperties")) continue;
      const Json* one = listed != nullptr ? listed : others;
      if (one != nullptr && !accepts(*one, member, depth)) return false;
    }
    return true;
  }

  const Json& root_;
  size_t n_left_ = kMaxSchemas;
  bool gave_up_ = false;
};

}  // namespace

bool schema_accepts(const Json& schema, const Json& root, const Json& value) {
  SchemaCheck check(root);
  return check.accepts(schema, value, kMaxDepth) && !check.gave_up();
}

}  // namespace ibid
