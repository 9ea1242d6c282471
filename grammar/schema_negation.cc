// Schemas derived from keywords that state a condition: `not`, `if`, dependencies. Each is rewritten as a schema of
// alternatives with keywords that the compiler reads directly.
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_limits.h"
#include "grammar/json_writer.h"
#include "grammar/schema_compiler.h"
#include "grammar/schema_document.h"

namespace ibid {
namespace {

constexpr size_t kMostPairs = 20;         // maximum number of branches of a negated oneOf
constexpr size_t kMostPlacedItems = 100;  // maximum number of items with own schemas (prefixItems) in a negated schema

Json marked() {
  Json out = Json::object();
  out[kDerivedMark] = Json::binary({});
  return out;
}

Json marked(const char* type) {
  Json out = marked();
  out["type"] = type;
  return out;
}

Json not_this(const Json& schema) {
  if (schema.is_boolean()) return !schema.get<bool>();
  Json out = Json::object();
  out["not"] = schema;
  return out;
}

Json keyword(const char* name, Json value) {
  Json out = Json::object();
  out[name] = std::move(value);
  return out;
}

bool is_true(const Json& schema) { return schema == true || (schema.is_object() && schema.empty()); }

// Returns a schema of the objects whose property `name` satisfies `schema`; if `schema` is false, of the objects
// without this property.
Json with_property(const std::string& name, const Json& schema) {
  Json out = marked("object");
  if (schema != false) out["required"] = Json::array({name});
  if (schema != true) out["properties"] = keyword(name.c_str(), schema);
  return out;
}

// Collects the alternatives whose union is the negation of a schema object: each violates one of its keywords.
class Negation {
 public:
  Negation(const Json& schema, const std::string& pointer, bool strict)
      : schema_(schema), pointer_(pointer), strict_(strict) {}

  Result<Json> make() {
    static const std::map<std::string_view, void (Negation::*)(const Json&)> kNegations = {
        {"type", &Negation::type},
        {"enum", &Negation::values},
        {"const", &Negation::values},
        {"minimum", &Negation::bound},
        {"maximum", &Negation::bound},
        {"exclusiveMinimum", &Negation::bound},
        {"exclusiveMaximum", &Negation::bound},
        {"minLength", &Negation::count},
        {"maxLength", &Negation::count},
        {"minItems", &Negation::count},
        {"maxItems", &Negation::count},
        {"minProperties", &Negation::count},
        {"maxProperties", &Negation::count},
        {"pattern", &Negation::text},
        {"format", &Negation::text},
        {"prefixItems", &Negation::first_items},
        {"items", &Negation::items},
        {"contains", &Negation::contains},
        {"properties", &Negation::properties},
        {"required", &Negation::required},
        {"additionalProperties", &Negation::other_properties},
        {"anyOf", &Negation::any_of},
        {"allOf", &Negation::all_of},
        {"oneOf", &Negation::one_of},
        {"not", &Negation::double_negation},
        {"if", &Negation::condition},
        {"dependencies", &Negation::dependencies},
        {"dependentRequired", &Negation::dependencies},
        {"dependentSchemas", &Negation::dependencies},
        {"uniqueItems", &Negation::only_trivial},
        {"multipleOf", &Negation::only_trivial},
        {"patternProperties", &Negation::only_trivial},
        {"propertyNames", &Negation::only_trivial},
        {"additionalItems", &Negation::only_trivial},
        {"unevaluatedProperties", &Negation::only_trivial},
        {"unevaluatedItems", &Negation::only_trivial},
    };
    for (const auto& item : schema_.items()) {
      keyword_ = item.key();
      const auto found = kNegations.find(keyword_);
      if (found != kNegations.end()) (this->*found->second)(item.value());
      TRY(status_);
    }
    if (options_.empty()) return Json(false);
    if (options_.size() == 1) return std::move(options_[0]);
    Json out = marked();
    out["anyOf"] = std::move(options_);
    return out;
  }

 private:
  void refuse() { set(ErrorCode::kUnsupported, "not supported in a schema that is negated"); }
  void wrong(std::string_view what) { set(ErrorCode::kInvalidArgument, what); }
  void set(ErrorCode code, std::string_view what) {
    if (status_.ok()) status_ = schema_error(code, pointer_, keyword_, what);
  }
  // Adds an alternative, with kDerivedMark, which shows that the alternative evaluates no properties or items.
  void add(Json option) {
    if (option.is_object() && !option.contains(kDerivedMark)) {
      Json out = marked();
      out["allOf"] = Json::array({std::move(option)});
      option = std::move(out);
    }
    options_.push_back(std::move(option));
  }
  bool has(const char* name) const { return schema_.contains(name); }
  bool is_schema(const Json& value) {
    if (value.is_object() || value.is_boolean()) return true;
    wrong("a schema must be an object, true or false");
    return false;
  }
  bool are_schemas(const Json& value) {
    if (!value.is_array() || value.empty()) return wrong("not an array of schemas"), false;
    for (const Json& each : value) {
      if (!is_schema(each)) return false;
    }
    return true;
  }
  bool are_names(const Json& value) {
    if (!value.is_array()) return wrong("not an array"), false;
    for (const Json& name : value) {
      if (!name.is_string()) return wrong("not an array of strings"), false;
    }
    return true;
  }

  void type(const Json& value) {
    const Json names = value.is_array() ? value : Json::array({value});
    const auto named = [&](const char* name) {
      for (const Json& each : names) {
        if (each == name) return true;
      }
      return false;
    };
    Json others = Json::array();
    for (const char* name : {"boolean", "object", "array", "string"}) {
      if (!named(name)) others.push_back(name);
    }
    const bool is_nullable = !strict_ && has("nullable") && schema_.at("nullable") == true;
    if (!named("null") && !is_nullable) others.push_back("null");
    if (!named("number")) others.push_back(named("integer") ? kFraction : "number");
    if (others.empty()) return;
    Json out = marked();
    out["type"] = std::move(others);
    add(std::move(out));
  }

  void values(const Json& value) {
    const Json all = keyword_ == "const" ? Json::array({value}) : value;
    if (!all.is_array()) return wrong("not an array");
    for (const Json& each : all) {
      if (each.is_structured() && !each.empty()) return refuse();
    }
    Json out = marked();
    out[kExcluded] = all;
    add(std::move(out));
  }

  void bound(const Json& value) {
    const bool is_exclusive = keyword_.starts_with("exclusive");
    if (is_exclusive && value.is_boolean()) return;
    if (!value.is_number()) return wrong("not a number");
    const bool is_min = keyword_.ends_with("inimum");
    const auto flag = schema_.find(is_min ? "exclusiveMinimum" : "exclusiveMaximum");
    const bool open = is_exclusive || (flag != schema_.end() && *flag == true);
    Json out = marked("number");
    out[is_min ? (open ? "maximum" : "exclusiveMaximum") : (open ? "minimum" : "exclusiveMinimum")] = value;
    add(std::move(out));
  }

  void count(const Json& value) {
    const std::optional<uint32_t> n = count_of(value);
    if (!n) return wrong("not a whole number of 0 or more");
    const bool is_min = keyword_.starts_with("min");
    if (is_min && *n == 0) return;
    const std::string what = keyword_.substr(3);
    Json out = marked(what == "Length" ? "string" : what == "Items" ? "array" : "object");
    out[(is_min ? "max" : "min") + what] = is_min ? *n - 1 : *n + 1;
    add(std::move(out));
  }

  static std::optional<uint32_t> count_of(const Json& value) {
    if (!value.is_number()) return std::nullopt;
    const Decimal number = decimal_of(value);
    if (number.negative || !number.fraction.empty()) return std::nullopt;
    return number.whole.size() < 10 ? static_cast<uint32_t>(std::stoul(number.whole)) : kMaxRepetition;
  }

  void text(const Json& value) {
    if (!value.is_string()) return wrong("not a string");
    if (keyword_ == "format" && format_pattern(value.get_ref<const std::string&>()) == nullptr) return;
    Json out = marked("string");
    out[keyword_ == "pattern" ? kOtherPattern : kOtherFormat] = value;
    add(std::move(out));
  }

  void first_items(const Json& value) {
    if (!are_schemas(value)) return;
    if (value.size() > kMostPlacedItems) return refuse();
    Json before = Json::array();
    for (const Json& item : value) {
      Json out = marked("array");
      out["minItems"] = before.size() + 1;
      out["prefixItems"] = before;
      out["prefixItems"].push_back(not_this(item));
      before.push_back(true);
      if (!is_true(item)) add(std::move(out));
    }
  }

  void items(const Json& value) {
    if (value.is_array()) return first_items(value);
    if (!is_schema(value) || is_true(value)) return;
    if (has("prefixItems")) return refuse();
    Json out = marked("array");
    value == false ? out["minItems"] = 1 : out["contains"] = not_this(value);
    add(std::move(out));
  }

  void contains(const Json& value) {
    if (!is_schema(value)) return;
    const auto given = [&](const char* name) { return has(name) ? count_of(schema_.at(name)) : std::nullopt; };
    const uint32_t least = given("minContains").value_or(1);
    if (least == 1 && !has("maxContains")) {
      Json out = marked("array");
      out["items"] = not_this(value);
      return add(std::move(out));
    }
    const auto add_count = [&](uint32_t from, std::optional<uint32_t> to) {
      Json out = marked("array");
      out["contains"] = value;
      out["minContains"] = from;
      if (to) out["maxContains"] = *to;
      add(std::move(out));
    };
    if (least > 0) add_count(0, least - 1);
    if (const std::optional<uint32_t> most = given("maxContains")) add_count(*most + 1, std::nullopt);
  }

  void properties(const Json& value) {
    if (!value.is_object()) return wrong("not an object");
    for (const auto& item : value.items()) {
      if (!is_schema(item.value())) return;
      if (!is_true(item.value())) add(with_property(item.key(), not_this(item.value())));
    }
  }

  void required(const Json& value) {
    if (!are_names(value)) return;
    for (const Json& name : value) add(with_property(name.get<std::string>(), false));
  }

  void other_properties(const Json& value) {
    if (!is_schema(value) || is_true(value)) return;
    if (value != false) return refuse();
    Json names_outside = Json::object();
    for (const auto& [list, from] : {std::pair("names", "properties"), std::pair("patterns", "patternProperties")}) {
      names_outside[list] = Json::array();
      if (!has(from) || !schema_.at(from).is_object()) continue;
      for (const auto& item : schema_.at(from).items()) names_outside[list].push_back(item.key());
    }
    Json out = marked("object");
    out[kNameOutside] = std::move(names_outside);
    add(std::move(out));
  }

  void any_of(const Json& value) {
    if (!are_schemas(value)) return;
    add(none_of(value));
  }
  void all_of(const Json& value) {
    if (!are_schemas(value)) return;
    for (const Json& each : value) add(not_this(each));
  }
  // Negates oneOf: a value violates it if the value satisfies no branch, or more than one.
  void one_of(const Json& value) {
    if (!are_schemas(value)) return;
    if (value.size() > kMostPairs) return refuse();
    add(none_of(value));
    for (size_t i = 0; i < value.size(); ++i) {
      for (size_t j = 0; j < i; ++j) add(keyword("allOf", Json::array({value[j], value[i]})));
    }
  }
  static Json none_of(const Json& branches) {
    Json out = Json::array();
    for (const Json& each : branches) out.push_back(not_this(each));
    return keyword("allOf", std::move(out));
  }

  void double_negation(const Json& value) {
    if (is_schema(value)) add(value);
  }

  void condition(const Json& value) {
    if (!is_schema(value)) return;
    if (has("then")) add(keyword("allOf", Json::array({value, not_this(schema_.at("then"))})));
    if (has("else")) add(keyword("allOf", Json::array({not_this(value), not_this(schema_.at("else"))})));
  }

  void dependencies(const Json& value) {
    if (!value.is_object()) return wrong("not an object");
    for (const auto& item : value.items()) {
      if (item.value().is_object() || item.value().is_boolean()) {
        add(keyword("allOf", Json::array({with_property(item.key(), true), not_this(item.value())})));
        continue;
      }
      if (!are_names(item.value())) return;
      for (const Json& name : item.value()) {
        add(keyword("allOf",
                    Json::array({with_property(item.key(), true), with_property(name.get<std::string>(), false)})));
      }
    }
  }

  // Refuses to negate the keyword, unless its value constrains nothing.
  void only_trivial(const Json& value) {
    if (value == false && keyword_ == "uniqueItems") return;
    if (keyword_ == "patternProperties" && value.is_object()) {
      bool trivial = true;
      for (const auto& item : value.items()) trivial &= is_true(item.value());
      if (trivial) return;
    }
    if (keyword_ == "additionalItems" && (!has("items") || !schema_.at("items").is_array())) return;
    if (!is_true(value) || keyword_ == "uniqueItems") refuse();
  }

  const Json& schema_;
  const std::string& pointer_;
  const bool strict_;
  std::string keyword_;
  Json options_ = Json::array();
  Status status_;
};

// Returns a schema with two alternatives: `if` and `then`; or not `if`, and `else`.
Json conditional(const Json& schema) {
  const Json& condition = schema.at("if");
  const auto branch = [&](const char* name, Json holds) {
    return schema.contains(name) ? keyword("allOf", Json::array({std::move(holds), schema.at(name)})) : holds;
  };
  return keyword("anyOf", Json::array({branch("then", condition), branch("else", not_this(condition))}));
}

// Returns a schema: either the property `name` is missing, or it exists and the object also satisfies `value` (a list
// of required names, or a schema).
Result<Json> dependency(const std::string& name, const Json& value, const std::string& pointer) {
  Json holds = with_property(name, true), missing = with_property(name, false);
  holds.erase("type");
  missing.erase("type");
  if (value.is_object() || value.is_boolean()) {
    holds = keyword("allOf", Json::array({std::move(holds), value}));
  } else {
    const Json names = value.is_string() ? Json::array({value}) : value;  // draft 3 also allows a single name
    bool are_names = names.is_array();
    for (const Json& other : names) are_names &= other.is_string();
    if (!are_names) {
      return schema_error(ErrorCode::kInvalidArgument, pointer, name, "neither an array of strings nor a schema");
    }
    for (const Json& other : names) holds["required"].push_back(other);
  }
  return keyword("anyOf", Json::array({std::move(missing), std::move(holds)}));
}

}  // namespace

Result<SchemaId> SchemaDocument::derived(PlaceId place, const std::string& keyword, const std::string& name,
                                         const std::function<Result<Json>()>& make) {
  const auto [entry, is_new] = derived_.try_emplace({place, keyword, name});
  std::optional<Result<SchemaId>>& known = entry->second;
  if (!is_new)
    return known ? *known : schema_error(ErrorCode::kInvalidArgument, pointer(place), keyword, "refers to itself");
  const std::string* key = keyword.empty() ? nullptr : &std::get<1>(entry->first);
  const auto add = [&]() -> Result<SchemaId> {
    TRY_ASSIGN(Json schema, make());
    const Json& kept = derived_json_.emplace_back(std::move(schema));
    const PlaceId id = add_place(kept,
                                 {.json = &kept,
                                  .parent = place,
                                  .index = 0,
                                  .key = key,
                                  .resource = places_[place].resource,
                                  .first_like = 0,
                                  .derived = true},
                                 Role::kSchema, 0);
    TRY(status_);
    TRY(budget_->status("schema: " + pointer(place)));
    return schema_of(id);
  };
  return *(known = add());
}

Result<SchemaId> SchemaDocument::conditional_of(PlaceId place) {
  return derived(place, "if", "", [&] { return conditional(json(place)); });
}

Result<SchemaId> SchemaDocument::dependency_of(PlaceId place, const std::string& keyword, const std::string& name) {
  return derived(place, keyword, name, [&] {
    return dependency(name, json(place).at(keyword).at(name), child_pointer(pointer(place), keyword));
  });
}

Result<SchemaId> SchemaDocument::negation_of(SchemaId schema) {
  if (schema == kAnySchema) return kNoSchema;
  if (schema == kNoSchema) return kAnySchema;
  const std::vector<PlaceId> all = sets_[schema];
  if (all.size() == 1) return negate(all[0]);
  for (const PlaceId place : all) {
    if (places_[place].resource == places_[all[0]].resource) continue;
    return schema_error(ErrorCode::kUnsupported, pointer(place), "$id", "not supported in a schema that is negated");
  }
  return derived(all[0], "", std::to_string(schema), [&]() -> Result<Json> {
    Json options = Json::array();
    for (const PlaceId place : all) options.push_back(not_this(json(place)));
    return keyword("anyOf", std::move(options));
  });
}

Result<SchemaId> SchemaDocument::negate(PlaceId place) {
  const Json& schema = json(place);
  const auto reference = schema.is_object() ? schema.find("$ref") : schema.end();
  if (!schema.is_object() || reference == schema.end()) {
    if (!schema.is_object()) {
      return schema_error(ErrorCode::kInvalidArgument, pointer(place), "", "a schema must be an object, true or false");
    }
    return derived(place, "", "not", [&] { return Negation(schema, pointer(place), strict_).make(); });
  }
  if (!reference->is_string()) return schema_error(ErrorCode::kInvalidArgument, pointer(place), "$ref", "not a string");
  if (refs_stand_alone_ || schema.size() == 1) {
    const NestedRead nested(*this);
    TRY(nested.check(place));
    TRY_ASSIGN(const PlaceId target, resolve(reference->get<std::string>(), place));
    return negation_of(schema_of(target));
  }
  return derived(place, "", "not", [&]() -> Result<Json> {
    TRY_ASSIGN(Json rest, Negation(schema, pointer(place), strict_).make());
    return keyword("anyOf", Json::array({not_this(keyword("$ref", *reference)), std::move(rest)}));
  });
}

}  // namespace ibid
