#include "grammar/schema_document.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <unordered_set>

namespace ibid {
namespace {

// Keywords that do not constrain values, or that are read elsewhere.
constexpr std::array<std::string_view, 24> kAnnotations = {"title",
                                                           "description",
                                                           "default",
                                                           "examples",
                                                           "example",
                                                           "$comment",
                                                           "deprecated",
                                                           "readOnly",
                                                           "writeOnly",
                                                           "$schema",
                                                           "$id",
                                                           "$anchor",
                                                           "$defs",
                                                           "definitions",
                                                           "$vocabulary",
                                                           "contentEncoding",
                                                           "contentMediaType",
                                                           "contentSchema",
                                                           "$ref",
                                                           "allOf",
                                                           "$dynamicAnchor",
                                                           "discriminator",
                                                           "externalDocs",
                                                           "xml"};

// Formats that name the purpose of a string or number, not its syntax.
constexpr std::array<std::string_view, 9> kFormatsOfAnyText = {
    "password", "binary", "path", "file-path", "directory-path", "int32", "int64", "float", "double"};

constexpr std::array<std::pair<std::string_view, unsigned>, 7> kTypeNames = {{{"null", kNullType},
                                                                              {"boolean", kBooleanType},
                                                                              {"object", kObjectType},
                                                                              {"array", kArrayType},
                                                                              {"string", kStringType},
                                                                              {"number", kFractionType | kIntegerType},
                                                                              {"integer", kIntegerType}}};

constexpr size_t kMostProperties = 5000;

class KeywordReader {
 public:
  KeywordReader(SchemaDocument& document, PlaceId place)
      : document_(document), place_(place), json_(document.json(place)) {
    part_.schema = document.schema_of(place);
  }

  Result<SchemaPart> read() {
    static const std::map<std::string_view, void (KeywordReader::*)(const Json&)> kReaders = {
        {"type", &KeywordReader::read_type},
        {"enum", &KeywordReader::read_enum},
        {"const", &KeywordReader::read_const},
        {"minimum", &KeywordReader::read_bound},
        {"maximum", &KeywordReader::read_bound},
        {"exclusiveMinimum", &KeywordReader::read_bound},
        {"exclusiveMaximum", &KeywordReader::read_bound},
        {"multipleOf", &KeywordReader::read_multiple},
        {"minLength", &KeywordReader::read_count},
        {"maxLength", &KeywordReader::read_count},
        {"minItems", &KeywordReader::read_count},
        {"maxItems", &KeywordReader::read_count},
        {"minProperties", &KeywordReader::read_count},
        {"maxProperties", &KeywordReader::read_count},
        {"pattern", &KeywordReader::read_text},
        {"format", &KeywordReader::read_text},
        {"prefixItems", &KeywordReader::read_first_items},
        {"items", &KeywordReader::read_items},
        {"additionalItems", &KeywordReader::read_additional_items},
        {"uniqueItems", &KeywordReader::read_unique},
        {"contains", &KeywordReader::read_contained},
        {"minContains", &KeywordReader::read_least_contained},
        {"maxContains", &KeywordReader::read_most_contained},
        {"if", &KeywordReader::read_condition},
        {"then", &KeywordReader::read_consequence},
        {"else", &KeywordReader::read_consequence},
        {"properties", &KeywordReader::read_properties},
        {"patternProperties", &KeywordReader::read_properties},
        {"additionalProperties", &KeywordReader::read_sub_schema},
        {"propertyNames", &KeywordReader::read_sub_schema},
        {"required", &KeywordReader::read_required},
        {"anyOf", &KeywordReader::read_choice},
        {"oneOf", &KeywordReader::read_choice},
    };
    for (const auto& item : json_.items()) {
      keyword_ = item.key();
      const auto reader = kReaders.find(keyword_);
      if (reader != kReaders.end()) {
        (this->*reader->second)(item.value());
      } else if (std::ranges::find(kAnnotations, keyword_) == kAnnotations.end() && !keyword_.starts_with("x-")) {
        refuse("the keyword is not supported");
      }
      TRY(status_);
    }
    return std::move(part_);
  }

 private:
  void refuse(std::string_view what) { set(ErrorCode::kUnsupported, what); }
  void wrong(std::string_view what) { set(ErrorCode::kInvalidArgument, what); }
  void set(ErrorCode code, std::string_view what) {
    if (status_.ok()) status_ = schema_error(code, document_.pointer(place_), keyword_, what);
  }
  void too_many() { set(ErrorCode::kLimitExceeded, "more than " + std::to_string(kMostProperties) + " entries"); }
  bool is_schema(const Json& value) {
    if (value.is_object() || value.is_boolean()) return true;
    wrong("a schema must be an object, true or false");
    return false;
  }

  void read_type(const Json& value) {
    part_.types = 0;
    const Json names = value.is_array() ? value : Json::array({value});
    for (const Json& name : names) {
      const auto known = std::ranges::find_if(kTypeNames, [&](const auto& row) {
        return name.is_string() && name.get_ref<const std::string&>() == row.first;
      });
      if (known == kTypeNames.end()) return wrong("not the name of a type");
      part_.types |= known->second;
    }
    if (names.empty()) wrong("the list of types is empty");
  }

  void read_enum(const Json& value) {
    if (!value.is_array()) return wrong("not an array");
    std::vector<ListedValue> values;
    std::unordered_set<uint32_t> met;
    for (const Json& one : value) {
      const uint32_t number = document_.value_number(one);
      if (met.insert(number).second) values.push_back({&one, number});
    }
    set_values(std::move(values));
  }
  void read_const(const Json& value) { set_values({{&value, document_.value_number(value)}}); }
  void set_values(std::vector<ListedValue> values) {
    if (part_.values) {
      std::unordered_set<uint32_t> allowed;
      for (const ListedValue& one : *part_.values) allowed.insert(one.number);
      std::erase_if(values, [&](const ListedValue& one) { return !allowed.contains(one.number); });
    }
    part_.values = std::move(values);
  }

  void read_bound(const Json& value) {
    if (!value.is_number()) return wrong("not a number");
    const bool open = keyword_.starts_with("exclusive");
    keyword_.ends_with("inimum") ? part_.numbers.raise_min(decimal_of(value), open)
                                 : part_.numbers.lower_max(decimal_of(value), open);
  }

  void read_multiple(const Json& value) {
    if (!value.is_number()) return wrong("not a number");
    const Decimal step = decimal_of(value);
    if (step.negative || step.is_zero()) return wrong("not above 0");
    part_.numbers.multiples.push_back(step);
  }

  void read_count(const Json& value) {
    if (!value.is_number()) return wrong("not a number");
    const Decimal count = decimal_of(value);
    if (count.negative || !count.fraction.empty()) return wrong("not a whole number of 0 or more");
    const bool is_min = keyword_.starts_with("min");
    uint32_t n = kMaxRepetition + 1;
    if (count.whole.size() < 10) n = static_cast<uint32_t>(std::min(std::stoul(count.whole), size_t{n}));
    if (n > kMaxRepetition) {
      // No answer is that long, so a larger maximum has no effect.
      if (is_min) set(ErrorCode::kLimitExceeded, "above " + std::to_string(kMaxRepetition));
      return;
    }
    CountBounds& bounds = keyword_.ends_with("Length")  ? part_.length
                          : keyword_.ends_with("Items") ? part_.item_count
                                                        : part_.property_count;
    is_min ? bounds.min = n : bounds.max = n;
  }

  void read_text(const Json& value) {
    if (!value.is_string()) return wrong("not a string");
    const std::string& text = value.get_ref<const std::string&>();
    if (keyword_ == "format" && std::ranges::find(kFormatsOfAnyText, text) != kFormatsOfAnyText.end()) return;
    (keyword_ == "pattern" ? part_.patterns : part_.formats).emplace_back(text, place_);
  }

  void read_first_items(const Json& value) {
    if (!value.is_array()) return wrong("not an array");
    for (const Json& item : value) {
      if (!is_schema(item)) return;
      part_.first_items.push_back(document_.at(item));
    }
  }

  // As an array, `items` is the notation of earlier drafts for prefixItems.
  void read_items(const Json& value) {
    if (value.is_array()) return read_first_items(value);
    if (is_schema(value)) part_.other_items = document_.at(value);
  }

  void read_additional_items(const Json& value) {
    const auto items = json_.find("items");
    if (items == json_.end() || !items->is_array()) return;  // then additionalItems has no effect
    if (is_schema(value)) part_.other_items = document_.at(value);
  }

  void read_unique(const Json& value) {
    if (!value.is_boolean()) return wrong("not a boolean");
    part_.unique = value.get<bool>();
  }

  void read_contained(const Json& value) {
    if (!is_schema(value)) return;
    const auto least = json_.find("minContains");
    uint32_t n = 1;
    if (least != json_.end() && least->is_number()) {
      const Decimal count = decimal_of(*least);
      n = count.whole.size() < 6 ? static_cast<uint32_t>(std::stoul(count.whole)) : kMaxRepetition;
    }
    if (n > 0) part_.contained.push_back({document_.at(value), n});
  }
  // minContains: used with `contains`, ignored without it.
  void read_least_contained(const Json& value) {
    const bool is_count = value.is_number() && !decimal_of(value).negative && decimal_of(value).fraction.empty();
    if (!is_count) wrong("not a whole number of 0 or more");
  }
  void read_most_contained(const Json& value) {
    read_least_contained(value);
    if (json_.contains("contains")) refuse("the keyword is not supported");
  }

  // `if` and then/else are ignored without each other.
  void read_condition(const Json&) {
    if (json_.contains("then") || json_.contains("else")) refuse("the keyword is not supported");
  }
  void read_consequence(const Json&) {
    if (json_.contains("if")) refuse("the keyword is not supported");
  }

  void read_properties(const Json& value) {
    if (!value.is_object()) return wrong("not an object");
    if (value.size() > kMostProperties) return too_many();
    SchemaPart::Named& named = keyword_ == "properties" ? part_.properties : part_.pattern_properties;
    for (const auto& item : value.items()) {
      if (!is_schema(item.value())) return;
      named.emplace_back(item.key(), document_.at(item.value()));
    }
  }

  void read_sub_schema(const Json& value) {
    if (!is_schema(value)) return;
    if (keyword_ == "propertyNames") {
      part_.property_names.push_back(document_.at(value));
    } else {
      part_.other_properties = document_.at(value);
    }
  }

  void read_required(const Json& value) {
    if (!value.is_array()) return wrong("not an array");
    if (value.size() > kMostProperties) return too_many();
    std::unordered_set<std::string_view> met;
    for (const Json& name : value) {
      if (!name.is_string()) return wrong("not an array of strings");
      const std::string_view text = name.get_ref<const std::string&>();
      if (met.insert(text).second) part_.required.push_back(text);
    }
  }

  void read_choice(const Json& value) {
    if (!value.is_array() || value.empty()) return wrong("not an array of schemas");
    SchemaPart::Choice choice{.branches = {}, .exclusive = keyword_ == "oneOf", .place = place_};
    for (const Json& branch : value) {
      if (!is_schema(branch)) return;
      choice.branches.push_back(document_.at(branch));
    }
    part_.choices.push_back(std::move(choice));
  }

  SchemaDocument& document_;
  const PlaceId place_;
  const Json& json_;
  SchemaPart part_;
  std::string keyword_;
  Status status_;
};

// Reads the keywords of one schema object, except $ref and allOf. Errors: those of read_schema(). REQUIRES: an object.
Result<SchemaPart> read_keywords(SchemaDocument& document, PlaceId place) {
  return KeywordReader(document, place).read();
}

constexpr size_t kMostMerged = 1000;  // maximum number of schemas that one schema refers to, directly or indirectly
constexpr size_t kMostNesting = 100;  // maximum nesting of such references
constexpr size_t kReadCost = 20;      // cost of reading a schema's keywords
constexpr size_t kMergeCost = 4;      // cost of merging one property

// Merges a schema with those that it refers to. Each place is merged once.
class SchemaReader {
 public:
  SchemaReader(SchemaDocument& document, SchemaPart& part) : document_(document), part_(part) {}

  Status add(PlaceId named, size_t depth = 0) {
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
    TRY(document_.spend(own.size() + kReadCost, part_.schema));
    TRY(take(std::move(own)));
    TRY(add_reference(place, json, depth));
    if (const auto found = json.find("allOf"); found != json.end()) {
      if (!found->is_array()) {
        return schema_error(ErrorCode::kInvalidArgument, document_.pointer(place), "allOf", "not an array");
      }
      for (const Json& member : *found) {
        for (const PlaceId at : places_of(member)) TRY(add_inner(at, place, depth));
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

  Status add_reference(PlaceId place, const Json& json, size_t depth) {
    const auto found = json.find("$ref");
    if (found == json.end()) return {};
    if (!found->is_string()) {
      return schema_error(ErrorCode::kInvalidArgument, document_.pointer(place), "$ref", "not a string");
    }
    TRY_ASSIGN(const PlaceId target, document_.resolve(found->get<std::string>(), place));
    return add_inner(target, place, depth);
  }

  Status add_inner(PlaceId target, PlaceId from, size_t depth) {
    if (!open_.contains(document_.first_like(target))) return add(target, depth + 1);
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
  std::unordered_set<PlaceId> open_, done_;  // open_: references that are being followed
};

// Returns the constraints of `part` on a property of this name, declared or not.
Result<SchemaId> asked_of_property(SchemaDocument& document, const SchemaPart& part, const PropertyIndex& index,
                                   std::string_view name) {
  SchemaId asked = kAnySchema;
  bool named = false;
  if (const SchemaId* own = index.find(name)) {
    asked = *own;
    named = true;
  }
  for (const auto& [pattern, schema] : part.pattern_properties) {
    TRY_ASSIGN(const bool matches, document.patterns().finds(pattern, name));
    if (!matches) continue;
    asked = document.both(asked, schema);
    named = true;
  }
  return named ? asked : part.other_properties;
}

Status merge_properties(SchemaDocument& document, SchemaPart& a, const SchemaPart& b) {
  const PropertyIndex in_a(a), in_b(b);
  SchemaPart::Named merged;
  merged.reserve(a.properties.size() + b.properties.size());
  for (const auto& [name, schema] : a.properties) {
    TRY_ASSIGN(const SchemaId others, asked_of_property(document, b, in_b, name));
    merged.emplace_back(name, document.both(schema, others));
  }
  for (const auto& [name, schema] : b.properties) {
    if (in_a.find(name) != nullptr) continue;
    TRY_ASSIGN(const SchemaId others, asked_of_property(document, a, in_a, name));
    merged.emplace_back(name, document.both(schema, others));
  }
  for (const std::string_view name : b.required) {
    if (!in_a.requires_name(name)) a.required.push_back(name);
  }
  a.properties = std::move(merged);
  return {};
}

// Merges lists of patterns; each pattern is listed once.
void merge_patterns(SchemaDocument& document, SchemaPart::Named& a, const SchemaPart::Named& b) {
  for (const auto& [pattern, schema] : b) {
    const auto found = std::ranges::find(a, pattern, &SchemaPart::Named::value_type::first);
    if (found == a.end()) {
      a.emplace_back(pattern, schema);
    } else {
      found->second = document.both(found->second, schema);
    }
  }
}

Status merge_objects(SchemaDocument& document, SchemaPart& a, const SchemaPart& b) {
  if (!b.asks_of_objects()) return {};
  const bool patterned = !a.pattern_properties.empty() || !b.pattern_properties.empty();
  if (patterned && (a.other_properties != kAnySchema || b.other_properties != kAnySchema) && a.asks_of_objects()) {
    return schema_error(ErrorCode::kUnsupported, document.pointer_of(b.schema), "patternProperties",
                        "cannot be merged with additionalProperties of another schema");
  }
  TRY(merge_properties(document, a, b));
  merge_patterns(document, a.pattern_properties, b.pattern_properties);
  a.other_properties = document.both(a.other_properties, b.other_properties);
  for (const SchemaId names : b.property_names) {
    if (std::ranges::find(a.property_names, names) == a.property_names.end()) a.property_names.push_back(names);
  }
  a.property_count.meet(b.property_count);
  return {};
}

void merge_arrays(SchemaDocument& document, SchemaPart& a, const SchemaPart& b) {
  const auto item = [](const SchemaPart& part, size_t i) {
    return i < part.first_items.size() ? part.first_items[i] : part.other_items;
  };
  std::vector<SchemaId> first;
  for (size_t i = 0; i < std::max(a.first_items.size(), b.first_items.size()); ++i) {
    first.push_back(document.both(item(a, i), item(b, i)));
  }
  a.first_items = std::move(first);
  a.other_items = document.both(a.other_items, b.other_items);
  a.item_count.meet(b.item_count);
  a.unique |= b.unique;
  for (const SchemaPart::Contained& wanted : b.contained) {
    if (std::ranges::find(a.contained, wanted) == a.contained.end()) a.contained.push_back(wanted);
  }
}

void merge_numbers(NumberBounds& a, const NumberBounds& b) {
  if (b.min) a.raise_min(*b.min, b.above_min);
  if (b.max) a.lower_max(*b.max, b.below_max);
  for (const Decimal& step : b.multiples) {
    if (std::ranges::find(a.multiples, step) == a.multiples.end()) a.multiples.push_back(step);
  }
}

void merge_texts(SchemaPart::Texts& a, const SchemaPart::Texts& b) {
  for (const auto& text : b) {
    if (std::ranges::find(a, text.first, &SchemaPart::Texts::value_type::first) == a.end()) a.push_back(text);
  }
}

void merge_values(SchemaPart& a, const SchemaPart& b) {
  if (!b.values) return;
  if (!a.values) {
    a.values = b.values;
    return;
  }
  std::unordered_set<uint32_t> allowed;
  for (const ListedValue& value : *b.values) allowed.insert(value.number);
  std::erase_if(*a.values, [&](const ListedValue& value) { return !allowed.contains(value.number); });
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

bool SchemaPart::asks_of_arrays() const {
  return item_count.any() || unique || !contained.empty() || !first_items.empty() || other_items != kAnySchema;
}

bool SchemaPart::asks_of_objects() const {
  return property_count.any() || !properties.empty() || !required.empty() || !pattern_properties.empty() ||
         other_properties != kAnySchema || !property_names.empty();
}

bool SchemaPart::is_unconstrained() const {
  return types == kAllTypes && !values && !numbers.any() && !asks_of_strings() && !asks_of_arrays() &&
         !asks_of_objects();
}

size_t SchemaPart::size() const {
  size_t n = 1 + (values ? values->size() : 0) + patterns.size() + formats.size() + first_items.size() +
             properties.size() + required.size() + pattern_properties.size() + property_names.size() +
             numbers.multiples.size() + contained.size();
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
  // The work is proportional to this number, because lists are searched linearly for equal entries.
  const size_t n_pairs = a.patterns.size() * b.patterns.size() + a.formats.size() * b.formats.size() +
                         a.numbers.multiples.size() * b.numbers.multiples.size() +
                         a.pattern_properties.size() * b.pattern_properties.size() +
                         a.choices.size() * b.choices.size() + a.contained.size() * b.contained.size() +
                         a.property_names.size() * b.property_names.size();
  TRY(document.spend(kMergeCost * (a.size() + b.size()) + n_pairs, a.schema));
  a.types &= b.types;
  merge_values(a, b);
  merge_numbers(a.numbers, b.numbers);
  a.length.meet(b.length);
  merge_texts(a.patterns, b.patterns);
  merge_texts(a.formats, b.formats);
  merge_arrays(document, a, b);
  TRY(merge_objects(document, a, b));
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

std::string pointer_of_text(const SchemaDocument& document, PlaceId place, std::string_view keyword) {
  return child_pointer(document.pointer(place), keyword);
}

}  // namespace ibid
