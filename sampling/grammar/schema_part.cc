#include "sampling/grammar/schema_part.h"

#include <algorithm>
#include <set>

#include "sampling/grammar/grammar.h"
#include "sampling/grammar/grammar_parts.h"
#include "sampling/grammar/regex_parser.h"
#include "sampling/grammar/schema_keywords.h"

namespace ibid {
namespace {

constexpr size_t kMostMerged = 1000;  // schemas that one schema refers to, directly or by what it refers to
constexpr size_t kMostValuePairs = 10'000'000;
constexpr size_t kMostNesting = 100;  // of such references

bool is_true(const SubSchema& sub) {
  return (sub.schema.is_boolean() && sub.schema.get<bool>()) || (sub.schema.is_object() && sub.schema.empty());
}

// Merges a schema with what it refers to.
class SchemaReader {
 public:
  explicit SchemaReader(const SchemaDocument& document) : document_(document) {}

  Result<SchemaPart> read(const SubSchema& sub, size_t depth = 0) {
    if (++n_read_ > kMostMerged || depth > kMostNesting) {
      return schema_error(ErrorCode::kLimitExceeded, sub.pointer, "", "too many schemas are merged here");
    }
    if (sub.schema.is_boolean()) {
      SchemaPart part;
      part.pointer = sub.pointer;
      if (!sub.schema.get<bool>()) part.types = 0;
      return part;
    }
    if (!sub.schema.is_object()) {
      return schema_error(ErrorCode::kInvalidArgument, sub.pointer, "", "a schema must be an object, true or false");
    }
    TRY_ASSIGN(SchemaPart part, read_keywords(sub));
    if (const auto found = sub.schema.find("$ref"); found != sub.schema.end()) {
      if (!found->is_string()) return schema_error(ErrorCode::kInvalidArgument, sub.pointer, "$ref", "not a string");
      TRY_ASSIGN(const SubSchema target, document_.resolve(found->get<std::string>(), sub.pointer));
      if (!open_.insert(target.pointer).second) {
        return schema_error(ErrorCode::kInvalidArgument, sub.pointer, "$ref", "the schema refers to itself");
      }
      TRY_ASSIGN(const SchemaPart referred, read(target, depth + 1));
      open_.erase(target.pointer);
      TRY_ASSIGN(part, merge_parts(std::move(part), referred));
    }
    if (const auto found = sub.schema.find("allOf"); found != sub.schema.end()) {
      if (!found->is_array()) return schema_error(ErrorCode::kInvalidArgument, sub.pointer, "allOf", "not an array");
      for (size_t i = 0; i < found->size(); ++i) {
        const std::string place = child_pointer(child_pointer(sub.pointer, "allOf"), std::to_string(i));
        TRY_ASSIGN(const SchemaPart member, read({(*found)[i], place}, depth + 1));
        TRY_ASSIGN(part, merge_parts(std::move(part), member));
      }
    }
    return part;
  }

 private:
  const SchemaDocument& document_;
  size_t n_read_ = 0;
  std::set<std::string> open_;  // references that are being followed
};

// What `part` asks of a property that it has under this name or under none.
Result<SubSchema> asked_of_property(const SchemaPart& part, const std::string& name) {
  SubSchema asked;
  bool named = false;
  if (const SubSchema* own = part.property(name)) {
    asked = *own;
    named = true;
  }
  for (const auto& [pattern, schema] : part.pattern_properties) {
    TRY_ASSIGN(const bool matches, pattern_finds(pattern, name));
    if (!matches) continue;
    asked = both(asked, schema);
    named = true;
  }
  return named ? asked : part.other_properties;
}

Status merge_objects(SchemaPart& a, const SchemaPart& b) {
  const bool patterned = !a.pattern_properties.empty() || !b.pattern_properties.empty();
  if (patterned && (!is_true(a.other_properties) || !is_true(b.other_properties)) && a.asks_of_objects() &&
      b.asks_of_objects()) {
    return schema_error(ErrorCode::kUnsupported, b.pointer, "patternProperties",
                        "cannot be merged with additionalProperties of another schema");
  }
  SchemaPart::Named merged;
  for (const auto& [name, schema] : a.properties) {
    TRY_ASSIGN(const SubSchema others, asked_of_property(b, name));
    merged.emplace_back(name, both(schema, others));
  }
  for (const auto& [name, schema] : b.properties) {
    if (a.property(name) != nullptr) continue;
    TRY_ASSIGN(const SubSchema others, asked_of_property(a, name));
    merged.emplace_back(name, both(schema, others));
  }
  a.properties = std::move(merged);
  a.pattern_properties.insert(a.pattern_properties.end(), b.pattern_properties.begin(), b.pattern_properties.end());
  a.other_properties = both(a.other_properties, b.other_properties);
  for (const std::string& name : b.required) {
    if (std::ranges::find(a.required, name) == a.required.end()) a.required.push_back(name);
  }
  a.property_names.insert(a.property_names.end(), b.property_names.begin(), b.property_names.end());
  a.property_count.meet(b.property_count);
  return {};
}

void merge_arrays(SchemaPart& a, const SchemaPart& b) {
  const auto item = [](const SchemaPart& part, size_t i) {
    return i < part.first_items.size() ? part.first_items[i] : part.other_items;
  };
  std::vector<SubSchema> first;
  for (size_t i = 0; i < std::max(a.first_items.size(), b.first_items.size()); ++i) {
    first.push_back(both(item(a, i), item(b, i)));
  }
  a.first_items = std::move(first);
  a.other_items = both(a.other_items, b.other_items);
  a.item_count.meet(b.item_count);
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
  return item_count.any() || !first_items.empty() || !is_true(other_items);
}

bool SchemaPart::asks_of_objects() const {
  return property_count.any() || !properties.empty() || !required.empty() || !pattern_properties.empty() ||
         !is_true(other_properties) || !property_names.empty();
}

bool SchemaPart::asks_nothing() const {
  return types == kAllTypes && !values && !numbers.any() && !asks_of_strings() && !asks_of_arrays() &&
         !asks_of_objects();
}

const SubSchema* SchemaPart::property(const std::string& name) const {
  const auto found = std::ranges::find_if(properties, [&](const auto& named) { return named.first == name; });
  return found == properties.end() ? nullptr : &found->second;
}

SubSchema both(const SubSchema& a, const SubSchema& b) {
  if (is_true(a)) return b;
  if (is_true(b)) return a;
  Json members = Json::array({a.schema, b.schema});
  Json schema = Json::object();
  schema["allOf"] = std::move(members);
  return {std::move(schema), a.pointer};
}

Result<bool> pattern_finds(const std::string& pattern, const std::string& text) {
  GrammarRules rules;
  const RuleId root = rules.add_rule("pattern");
  const CharWriter write = [&](const CodePointSet& set) { return rules.chars(set); };
  TRY_ASSIGN(const ExprId expr, parse_regex(pattern, RegexMatch::kSearch, write, rules));
  rules.define(root, expr);
  const Result<Grammar> grammar = make_grammar(std::move(rules), "pattern");
  if (!grammar.ok() && grammar.status().code() == ErrorCode::kInvalidArgument) return false;  // finds nothing
  TRY(grammar.status());
  return grammar_accepts(*grammar, text);
}

Result<SchemaPart> merge_parts(SchemaPart a, const SchemaPart& b) {
  a.types &= b.types;
  if (a.values && b.values && a.values->size() * b.values->size() > kMostValuePairs) {
    return schema_error(ErrorCode::kLimitExceeded, a.pointer, "enum", "too many values to be compared with others");
  }
  if (a.values && b.values) {
    std::erase_if(*a.values, [&](const Json& v) { return std::ranges::find(*b.values, v) == b.values->end(); });
  } else if (b.values) {
    a.values = b.values;
  }
  if (b.numbers.min) a.numbers.raise_min(*b.numbers.min, b.numbers.above_min);
  if (b.numbers.max) a.numbers.lower_max(*b.numbers.max, b.numbers.below_max);
  a.numbers.multiples.insert(a.numbers.multiples.end(), b.numbers.multiples.begin(), b.numbers.multiples.end());
  a.length.meet(b.length);
  a.patterns.insert(a.patterns.end(), b.patterns.begin(), b.patterns.end());
  a.formats.insert(a.formats.end(), b.formats.begin(), b.formats.end());
  merge_arrays(a, b);
  TRY(merge_objects(a, b));
  a.choices.insert(a.choices.end(), b.choices.begin(), b.choices.end());
  return a;
}

Result<SchemaPart> read_schema(const SchemaDocument& document, const SubSchema& sub) {
  return SchemaReader(document).read(sub);
}

}  // namespace ibid
