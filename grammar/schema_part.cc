#include "grammar/schema_document.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_set>

namespace ibid {
namespace {

constexpr size_t kMostMerged = 1000;  // maximum number of schemas that one schema refers to, directly or indirectly
constexpr size_t kMostNesting = 100;  // maximum nesting of references between schemas
constexpr size_t kReadCost = 20;      // units of work for reading a schema's keywords
constexpr size_t kMergeCost = 4;      // units of work for merging one property

// Merges a schema with those that it refers to by $ref and allOf. Each place (schema in the document) is merged once.
class SchemaReader {
 public:
  SchemaReader(SchemaDocument& document, SchemaPart& part) : document_(document), part_(part) {}

  // Adds the constraints of a place. negated: the place comes from the negation of another schema, which evaluates no
  // properties or items.
  Status add(PlaceId named, size_t depth = 0, bool negated = false) {
    const PlaceId place = document_.first_like(named);
    if (done_.contains(place)) return {};
    if (++n_read_ > kMostMerged || depth > kMostNesting) {
      return schema_error(ErrorCode::kLimitExceeded, document_.pointer(named), "", "too many schemas are merged here");
    }
    const Json& json = document_.json(place);
    if (json.is_boolean()) {
      if (!json.get<bool>()) part_.types = 0;
      return {};
    }
    if (!json.is_object()) {
      return schema_error(ErrorCode::kInvalidArgument, document_.pointer(place), "",
                          "a schema must be an object, true or false");
    }
    open_.insert(place);
    TRY_ASSIGN(SchemaPart own, read_keywords(document_, place));
    TRY(add_patterns(place, own));
    TRY(document_.spend(own.size() + kReadCost, part_.schema));
    TRY(resolve_unevaluated(place, own, depth));
    negated |= document_.is_marked(place);
    own.has_derived_names = negated && own.names_values();
    const std::vector<SchemaId> conjuncts = std::exchange(own.conjuncts, {});
    TRY(take(std::move(own)));
    TRY(add_reference(place, json, depth, negated));
    for (const SchemaId derived : conjuncts) {
      const auto places = document_.places(derived);
      for (const PlaceId at : std::vector<PlaceId>(places.begin(), places.end()))
        TRY(add_inner(at, place, depth, negated));
    }
    const bool alone = document_.refs_stand_alone() && json.contains("$ref");
    if (const auto found = json.find("allOf"); found != json.end() && !alone) {
      if (!found->is_array()) {
        return schema_error(ErrorCode::kInvalidArgument, document_.pointer(place), "allOf", "not an array");
      }
      for (const Json& member : *found) {
        for (const PlaceId at : places_of(member)) TRY(add_inner(at, place, depth, negated));
      }
    }
    open_.erase(place);
    done_.insert(place);
    return {};
  }

 private:
  Status take(SchemaPart own) {
    if (std::exchange(is_first_, false)) {
      const SchemaId schema = part_.schema;
      const unsigned types = part_.types;
      part_ = std::move(own);
      part_.schema = schema;
      part_.types &= types;
      return {};
    }
    TRY_ASSIGN(part_, merge_parts(document_, std::move(part_), own));
    return {};
  }

  // Adds to the schema of each property the schemas of the patternProperties that match the property's name.
  Status add_patterns(PlaceId place, SchemaPart& own) {
    for (auto& [name, schema] : own.properties) {
      for (const auto& [pattern, also] : own.pattern_properties) {
        const Result<bool> matches = document_.patterns().finds(pattern, name);
        if (!matches.ok()) {
          return schema_error(matches.status().code(), document_.pointer(place), "patternProperties",
                              matches.status().message());
        }
        if (*matches) schema = document_.conjunction(schema, also);
      }
    }
    return {};
  }

  // unevaluatedProperties and unevaluatedItems of a schema that is merged with others concern only what the schema
  // itself and its references evaluate. So the schema at `place` is first read alone.
  Status resolve_unevaluated(PlaceId place, SchemaPart& own, size_t depth) {
    if (own.unevaluated_properties == kAnySchema && own.unevaluated_items == kAnySchema) return {};
    if (depth == 0 && document_.places(part_.schema).size() == 1) return {};
    const SchemaDocument::NestedRead nested(document_);
    TRY(nested.check(place));
    TRY_ASSIGN(SchemaPart whole, read_schema_to_merge(document_, document_.schema_of(place)));
    own.unevaluated_properties = own.unevaluated_items = kAnySchema;
    own.evaluates_properties = own.evaluates_items = true;
    for (const auto& [name, schema] : whole.properties) {
      if (std::ranges::find(own.properties, name, &SchemaPart::Named::value_type::first) == own.properties.end()) {
        own.properties.emplace_back(name, schema);
      }
    }
    own.pattern_properties = whole.pattern_properties;
    own.other_properties = whole.other_properties;
    own.first_items = whole.first_items;
    own.other_items = whole.other_items;
    return {};
  }

  Status add_reference(PlaceId place, const Json& json, size_t depth, bool negated) {
    const auto found = json.find("$ref");
    if (found == json.end()) return {};
    if (!found->is_string()) {
      return schema_error(ErrorCode::kInvalidArgument, document_.pointer(place), "$ref", "not a string");
    }
    TRY_ASSIGN(const PlaceId target, document_.resolve(found->get<std::string>(), place));
    return add_inner(target, place, depth, negated);
  }

  Status add_inner(PlaceId target, PlaceId from, size_t depth, bool negated) {
    if (!open_.contains(document_.first_like(target))) return add(target, depth + 1, negated);
    return schema_error(ErrorCode::kInvalidArgument, document_.pointer(from), "$ref", "the schema refers to itself");
  }

  std::vector<PlaceId> places_of(const Json& member) {
    const SchemaId schema = document_.at(member);
    if (schema == kNoSchema) part_.types = 0;
    const auto places = document_.places(schema);
    return {places.begin(), places.end()};
  }

  SchemaDocument& document_;
  SchemaPart& part_;
  bool is_first_ = true;
  size_t n_read_ = 0;
  // open_: places whose references are being followed; done_: places that were merged.
  std::unordered_set<PlaceId> open_, done_;
};

// Returns the constraints of `part` on the property `name`, declared or not.
Result<SchemaId> schema_for_property(SchemaDocument& document, const SchemaPart& part, const PropertyIndex& index,
                                     std::string_view name) {
  if (const SchemaId* own = index.find(name)) return *own;
  return schema_for_undeclared(document, part, name);
}

Status merge_properties(SchemaDocument& document, SchemaPart& a, const SchemaPart& b) {
  const PropertyIndex in_a(a), in_b(b);
  SchemaPart::Named merged;
  merged.reserve(a.properties.size() + b.properties.size());
  for (const auto& [name, schema] : a.properties) {
    TRY_ASSIGN(const SchemaId others, schema_for_property(document, b, in_b, name));
    merged.emplace_back(name, document.conjunction(schema, others));
  }
  for (const auto& [name, schema] : b.properties) {
    if (in_a.find(name) != nullptr) continue;
    TRY_ASSIGN(const SchemaId others, schema_for_property(document, a, in_a, name));
    merged.emplace_back(name, document.conjunction(schema, others));
  }
  for (const std::string_view name : b.required) {
    if (!in_a.requires_name(name)) a.required.push_back(name);
  }
  a.properties = std::move(merged);
  return {};
}

template <typename T>
void add_new(std::vector<T>& a, const std::vector<T>& b) {
  for (const T& each : b) {
    if (std::ranges::find(a, each) == a.end()) a.push_back(each);
  }
}

// Merges lists of patterns; each pattern is listed once.
// For a name that matches a pattern of one part only, the other part has its constraint on undeclared properties.
void merge_patterns(SchemaDocument& document, SchemaPart& a, const SchemaPart& b) {
  SchemaPart::Named merged;
  for (const auto& [pattern, schema] : a.pattern_properties) {
    const auto found = std::ranges::find(b.pattern_properties, pattern, &SchemaPart::Named::value_type::first);
    const SchemaId other = found == b.pattern_properties.end() ? b.other_properties : found->second;
    merged.emplace_back(pattern, document.conjunction(schema, other));
  }
  for (const auto& [pattern, schema] : b.pattern_properties) {
    const auto found = std::ranges::find(a.pattern_properties, pattern, &SchemaPart::Named::value_type::first);
    if (found == a.pattern_properties.end())
      merged.emplace_back(pattern, document.conjunction(schema, a.other_properties));
  }
  a.pattern_properties = std::move(merged);
}

Status merge_objects(SchemaDocument& document, SchemaPart& a, const SchemaPart& b) {
  a.lists_properties |= b.lists_properties;
  a.mentions_others |= b.mentions_others;
  a.evaluates_properties |= b.evaluates_properties;
  if (!b.asks_of_objects()) return {};
  TRY(merge_properties(document, a, b));
  merge_patterns(document, a, b);
  a.other_properties = document.conjunction(a.other_properties, b.other_properties);
  add_new(a.property_names, b.property_names);
  add_new(a.names_outside, b.names_outside);
  a.property_count.intersect(b.property_count);
  return {};
}

void merge_arrays(SchemaDocument& document, SchemaPart& a, const SchemaPart& b) {
  const auto item = [](const SchemaPart& part, size_t i) {
    return i < part.first_items.size() ? part.first_items[i] : part.other_items;
  };
  std::vector<SchemaId> first;
  for (size_t i = 0; i < std::max(a.first_items.size(), b.first_items.size()); ++i) {
    first.push_back(document.conjunction(item(a, i), item(b, i)));
  }
  a.first_items = std::move(first);
  a.other_items = document.conjunction(a.other_items, b.other_items);
  a.item_count.intersect(b.item_count);
  a.unique |= b.unique;
  a.evaluates_items |= b.evaluates_items;
  a.has_contains |= b.has_contains;
  add_new(a.contained, b.contained);
}

void merge_numbers(NumberBounds& a, const NumberBounds& b) {
  if (b.min) a.raise_min(*b.min, b.above_min);
  if (b.max) a.lower_max(*b.max, b.below_max);
  add_new(a.multiples, b.multiples);
}

void merge_texts(SchemaPart::Texts& a, const SchemaPart::Texts& b) {
  for (const auto& text : b) {
    if (std::ranges::find(a, text.first, &SchemaPart::Texts::value_type::first) == a.end()) a.push_back(text);
  }
}

// Merges the lists of allowed and of excluded values. If values are listed, subtracts `excluded` from them and clears
// it.
void merge_values(SchemaPart& a, const SchemaPart& b) {
  std::unordered_set<uint32_t> excluded;
  for (const ListedValue& value : a.excluded) excluded.insert(value.number);
  for (const ListedValue& value : b.excluded) {
    if (excluded.insert(value.number).second) a.excluded.push_back(value);
  }
  if (a.values && b.values) {
    std::unordered_set<uint32_t> allowed;
    for (const ListedValue& value : *b.values) allowed.insert(value.number);
    std::erase_if(*a.values, [&](const ListedValue& value) { return !allowed.contains(value.number); });
  } else if (b.values) {
    a.values = b.values;
  }
  if (!a.values) return;
  std::erase_if(*a.values, [&](const ListedValue& value) { return excluded.contains(value.number); });
  a.excluded.clear();
}

}  // namespace

unsigned type_of(const Json& value) {
  if (value.is_null()) return kNullType;
  if (value.is_boolean()) return kBooleanType;
  if (value.is_object()) return kObjectType;
  if (value.is_array()) return kArrayType;
  if (value.is_string()) return kStringType;
  return decimal_of(value).fraction.empty() ? kIntegerType : kFractionType;
}

bool SchemaPart::excludes(unsigned some_types) const {
  return std::ranges::any_of(excluded,
                             [&](const ListedValue& value) { return (type_of(*value.json) & some_types) != 0; });
}

bool SchemaPart::excludes(const ListedValue& value) const {
  return std::ranges::find(excluded, value.number, &ListedValue::number) != excluded.end();
}

bool SchemaPart::names_values() const {
  const auto is_possible = [](const auto& property) { return property.second != kNoSchema; };
  return std::ranges::any_of(properties, is_possible) || !pattern_properties.empty() || !first_items.empty();
}

bool SchemaPart::asks_of_arrays() const {
  return item_count.any() || unique || !contained.empty() || !first_items.empty() || other_items != kAnySchema ||
         unevaluated_items != kAnySchema;
}

bool SchemaPart::asks_of_objects() const {
  return property_count.any() || !properties.empty() || !required.empty() || !pattern_properties.empty() ||
         other_properties != kAnySchema || !property_names.empty() || !names_outside.empty() || lists_properties ||
         unevaluated_properties != kAnySchema;
}

bool SchemaPart::is_unconstrained() const {
  return types == kAllTypes && !values && excluded.empty() && !numbers.any() && !asks_of_strings() &&
         !asks_of_arrays() && !asks_of_objects();
}

size_t SchemaPart::size() const {
  size_t n = 1 + (values ? values->size() : 0) + patterns.size() + formats.size() + first_items.size() +
             properties.size() + required.size() + pattern_properties.size() + property_names.size() +
             numbers.multiples.size() + contained.size() + excluded.size() + other_patterns.size() +
             other_formats.size();
  for (const NameOutside& each : names_outside) n += 1 + each.names.size() + each.patterns.size();
  for (const Choice& choice : choices) n += 1 + choice.branches.size() / 8;
  return n;
}

PropertyIndex::PropertyIndex(const SchemaPart& part) {
  properties_.reserve(part.properties.size());
  for (const auto& [name, schema] : part.properties) properties_.emplace(name, schema);
  required_.reserve(part.required.size());
  for (const std::string_view name : part.required) required_.emplace(name, true);
}

Result<SchemaPart> merge_parts(SchemaDocument& document, SchemaPart a, const SchemaPart& b) {
  // Number of comparisons: for each entry of a list of `b`, the same list of `a` is searched linearly for an equal
  // entry.
  const size_t n_pairs =
      a.patterns.size() * b.patterns.size() + a.formats.size() * b.formats.size() +
      a.numbers.multiples.size() * b.numbers.multiples.size() +
      a.pattern_properties.size() * b.pattern_properties.size() + a.choices.size() * b.choices.size() +
      a.contained.size() * b.contained.size() + a.property_names.size() * b.property_names.size() +
      a.other_patterns.size() * b.other_patterns.size() + a.other_formats.size() * b.other_formats.size() +
      a.names_outside.size() * b.names_outside.size();
  TRY(document.spend(kMergeCost * (a.size() + b.size()) + n_pairs, a.schema));
  a.types &= b.types;
  a.has_derived_names |= b.has_derived_names;
  merge_values(a, b);
  merge_numbers(a.numbers, b.numbers);
  a.length.intersect(b.length);
  merge_texts(a.patterns, b.patterns);
  merge_texts(a.formats, b.formats);
  merge_texts(a.other_patterns, b.other_patterns);
  merge_texts(a.other_formats, b.other_formats);
  merge_arrays(document, a, b);
  TRY(merge_objects(document, a, b));
  a.unevaluated_properties = document.conjunction(a.unevaluated_properties, b.unevaluated_properties);
  a.unevaluated_items = document.conjunction(a.unevaluated_items, b.unevaluated_items);
  for (const SchemaPart::Choice& choice : b.choices) {
    const bool is_there = std::ranges::any_of(a.choices, [&](const SchemaPart::Choice& other) {
      return other.exclusive == choice.exclusive && other.branches == choice.branches;
    });
    if (!is_there) a.choices.push_back(choice);
  }
  TRY(document.spend(0, a.schema));
  return a;
}

Result<SchemaPart> read_schema(SchemaDocument& document, SchemaId schema) {
  SchemaPart part;
  part.schema = schema;
  if (schema == kNoSchema) part.types = 0;
  const auto places = document.places(schema);
  SchemaReader reader(document, part);
  for (const PlaceId place : std::vector<PlaceId>(places.begin(), places.end())) TRY(reader.add(place));
  return part;
}

Result<SchemaPart> read_schema_to_merge(SchemaDocument& document, SchemaId schema) {
  TRY_ASSIGN(SchemaPart part, read_schema(document, schema));
  if (part.unevaluated_properties == kAnySchema && part.unevaluated_items == kAnySchema) return part;
  if (!part.choices.empty()) {
    return schema_error(ErrorCode::kUnsupported, document.pointer_of(schema), "",
                        "unevaluatedProperties and unevaluatedItems are not supported with anyOf, oneOf or if in a "
                        "schema that is merged with another one");
  }
  TRY(apply_unevaluated(document, part));
  return part;
}

Status apply_unevaluated(SchemaDocument& document, SchemaPart& part) {
  const auto refused = [&](const char* keyword) {
    return schema_error(ErrorCode::kUnsupported, document.pointer_of(part.schema), keyword,
                        "not supported together with a negation or contains");
  };
  const SchemaId properties = std::exchange(part.unevaluated_properties, kAnySchema);
  if (properties != kAnySchema && !part.evaluates_properties) {
    if (part.has_derived_names) return refused("unevaluatedProperties");
    part.other_properties = document.conjunction(part.other_properties, properties);
  }
  const SchemaId items = std::exchange(part.unevaluated_items, kAnySchema);
  if (items != kAnySchema && !part.evaluates_items) {
    if (part.has_contains || part.has_derived_names) return refused("unevaluatedItems");
    part.other_items = document.conjunction(part.other_items, items);
  }
  return {};
}

Result<SchemaId> schema_for_undeclared(SchemaDocument& document, const SchemaPart& part, std::string_view name) {
  SchemaId asked = kAnySchema;
  bool matched = false;
  for (const auto& [pattern, schema] : part.pattern_properties) {
    const Result<bool> matches = document.patterns().finds(pattern, name);
    if (!matches.ok()) {
      return schema_error(matches.status().code(), document.pointer_of(part.schema), "patternProperties",
                          matches.status().message());
    }
    if (!*matches) continue;
    asked = document.conjunction(asked, schema);
    matched = true;
  }
  return matched ? asked : part.other_properties;
}

std::string pointer_of_text(const SchemaDocument& document, PlaceId place, std::string_view keyword) {
  return child_pointer(document.pointer(place), keyword);
}

}  // namespace ibid
