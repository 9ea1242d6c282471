// ValueChecker: decides whether a value of enum or const satisfies the other keywords of a schema.
#include <algorithm>
#include <unordered_set>

#include "grammar/json_writer.h"
#include "grammar/schema_compiler.h"

namespace ibid {
namespace {

constexpr size_t kMostValueDepth = 50;
constexpr size_t kExcludedAtOnce = 16;  // number of excluded values that are compared for one unit of work

}  // namespace

Result<bool> ValueChecker::allows(const SchemaPart& part, const ListedValue& listed) const {
  const Json& value = *listed.json;
  const unsigned type = type_of(value);
  TRY(document_.spend(part.excluded.size() / kExcludedAtOnce, part.schema));
  if ((part.types & type) == 0 || part.excludes(listed)) return false;
  if (type == kStringType) return string_allowed(document_, part, value.get<std::string>());
  if (type == kIntegerType || type == kFractionType) {
    TRY(document_.spend(1 + 4 * part.numbers.multiples.size(), part.schema));
    return part.numbers.allows(decimal_of(value));
  }
  if (type == kArrayType) return satisfies_array(value, part, 0);
  if (type == kObjectType) return satisfies_object(value, part, 0);
  return true;
}

// Decides whether a value inside an array or object of enum or const satisfies a schema.
Result<bool> ValueChecker::satisfies(const Json& value, SchemaId schema, size_t depth) const {
  if (schema == kAnySchema) return true;
  if (depth > kMostValueDepth) {
    return schema_error(ErrorCode::kLimitExceeded, document_.pointer_of(schema), "",
                        "a listed value is nested too deeply");
  }
  TRY_ASSIGN(const SchemaPart part, read_schema_to_merge(document_, schema));
  TRY(document_.spend(10, schema));
  const ListedValue listed{&value, document_.value_number(value)};
  if (part.values && std::ranges::find(*part.values, listed.number, &ListedValue::number) == part.values->end()) {
    return false;
  }
  if (value.is_structured()) {
    if ((part.types & type_of(value)) == 0 || part.excludes(listed)) return false;
    TRY_ASSIGN(const bool satisfied,
               value.is_array() ? satisfies_array(value, part, depth) : satisfies_object(value, part, depth));
    if (!satisfied) return false;
  } else {
    TRY_ASSIGN(const bool allowed, allows(part, listed));
    if (!allowed) return false;
  }
  return satisfies_choices(value, part, depth);
}

Result<bool> ValueChecker::satisfies_choices(const Json& value, const SchemaPart& part, size_t depth) const {
  for (const SchemaPart::Choice& choice : part.choices) {
    size_t n_satisfied = 0;
    for (const SchemaId branch : choice.branches) {
      TRY_ASSIGN(const bool satisfied, satisfies(value, branch, depth + 1));
      n_satisfied += satisfied;
    }
    if (n_satisfied == 0 || (choice.exclusive && n_satisfied > 1)) return false;
  }
  return true;
}

Result<bool> ValueChecker::satisfies_array(const Json& value, const SchemaPart& part, size_t depth) const {
  if (value.size() < part.item_count.min || value.size() > part.item_count.max) return false;
  std::unordered_set<uint32_t> met;
  for (size_t i = 0; i < value.size(); ++i) {
    if (part.unique && !met.insert(document_.value_number(value[i])).second) return false;
    TRY_ASSIGN(const bool satisfied,
               satisfies(value[i], i < part.first_items.size() ? part.first_items[i] : part.other_items, depth + 1));
    if (!satisfied) return false;
  }
  for (const SchemaPart::Contained& wanted : part.contained) {
    size_t n_found = 0;
    for (const Json& item : value) {
      TRY_ASSIGN(const bool satisfied, satisfies(item, wanted.schema, depth + 1));
      n_found += satisfied;
    }
    if (n_found < wanted.least || n_found > wanted.most) return false;
  }
  return true;
}

Result<bool> ValueChecker::satisfies_object(const Json& value, const SchemaPart& part, size_t depth) const {
  if (value.size() < part.property_count.min || value.size() > part.property_count.max) return false;
  for (const std::string_view name : part.required) {
    if (!value.contains(std::string(name))) return false;
  }
  const PropertyIndex index(part);
  for (const auto& item : value.items()) {
    SchemaId schema = kAnySchema;
    if (const SchemaId* own = index.find(item.key())) {
      schema = *own;
    } else {
      TRY_ASSIGN(schema, schema_for_undeclared(document_, part, item.key()));
    }
    TRY_ASSIGN(const bool satisfied, satisfies(item.value(), schema, depth + 1));
    if (!satisfied) return false;
    for (const SchemaId names : part.property_names) {
      const Json name = item.key();
      TRY_ASSIGN(const bool is_name, satisfies(name, names, depth + 1));
      if (!is_name) return false;
    }
  }
  if (part.names_outside.empty()) return true;
  return schema_error(ErrorCode::kUnsupported, document_.pointer_of(part.schema), "additionalProperties",
                      "not supported in a schema that is negated, beside listed objects");
}

}  // namespace ibid
