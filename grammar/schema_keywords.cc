// read_keywords(): reads the keywords of one schema object.
#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <unordered_set>

#include "base/text.h"
#include "grammar/schema_compiler.h"
#include "grammar/schema_document.h"

namespace ibid {
namespace {

// Keywords to skip here: they do not constrain values, or are read elsewhere.
// clang-format off
constexpr std::array<std::string_view, 26> kAnnotations = {
    "title", "description", "default", "examples", "example", "$comment", "deprecated", "readOnly", "writeOnly",
    "$schema", "$id", "id", "$anchor", "$defs", "definitions", "$vocabulary", "contentEncoding", "contentMediaType",
    "contentSchema", "$ref", "allOf", "$dynamicAnchor", "discriminator", "externalDocs", "xml", kDerivedMark};

// Words that are no keywords but differ from one in only one letter: schemas use them as annotations.
constexpr std::array<std::string_view, 8> kOtherWords = {
    "comment", "note", "item", "cost", "when", "them", "typed", "formats"};
// clang-format on

// Formats that name the purpose of a string or number, not its syntax.
constexpr std::array<std::string_view, 9> kFormatsOfAnyText = {
    "password", "binary", "path", "file-path", "directory-path", "int32", "int64", "float", "double"};

// True if `word` differs from `keyword` by one letter that is missing, added or replaced, or by two that are swapped.
bool is_misspelled(std::string_view word, std::string_view keyword) {
  if (word.size() > keyword.size()) return word.size() == keyword.size() + 1 && is_misspelled(keyword, word);
  size_t same = 0;
  while (same < word.size() && word[same] == keyword[same]) ++same;
  if (word.size() + 1 == keyword.size()) return word.substr(same) == keyword.substr(same + 1);
  if (word.size() != keyword.size() || same == word.size()) return false;
  const std::string_view rest = word.substr(same), other = keyword.substr(same);
  return rest.substr(1) == other.substr(1) ||
         (rest.size() > 1 && rest[0] == other[1] && rest[1] == other[0] && rest.substr(2) == other.substr(2));
}

constexpr std::array<std::pair<std::string_view, unsigned>, 7> kTypeNames = {{{"null", kNullType},
                                                                              {"boolean", kBooleanType},
                                                                              {"object", kObjectType},
                                                                              {"array", kArrayType},
                                                                              {"string", kStringType},
                                                                              {"number", kFractionType | kIntegerType},
                                                                              {"integer", kIntegerType}}};

constexpr size_t kMostProperties = 5000;
// Minimum length of a misspelled keyword; shorter ones resemble too many words.
constexpr size_t kShortestMisspelled = 4;

class KeywordReader {
 public:
  KeywordReader(SchemaDocument& document, PlaceId place)
      : document_(document), place_(place), json_(document.json(place)) {
    part_.schema = document.schema_of(place);
  }

  Result<SchemaPart> read() {
    static const Readers kMarkedReaders = {
        {kExcluded, &KeywordReader::read_excluded},
        {kOtherPattern, &KeywordReader::read_text},
        {kOtherFormat, &KeywordReader::read_text},
        {kNameOutside, &KeywordReader::read_name_outside},
    };
    if (document_.refs_stand_alone() && json_.contains("$ref")) return std::move(part_);
    for (const auto& item : json_.items()) {
      keyword_ = item.key();
      const auto reader = readers().find(keyword_);
      const auto marked = document_.is_marked(place_) ? kMarkedReaders.find(keyword_) : kMarkedReaders.end();
      if (marked != kMarkedReaders.end()) {
        (this->*marked->second)(item.value());
      } else if (reader != readers().end()) {
        (this->*reader->second)(item.value());
      } else if (keyword_ == "$dynamicRef" || keyword_ == "$recursiveRef") {
        refuse("the keyword is not supported");
      } else if (std::ranges::find(kAnnotations, keyword_) == kAnnotations.end() && !keyword_.starts_with("x-")) {
        read_unknown();
      }
      TRY(status_);
    }
    part_.lists_properties = json_.contains("properties") && !document_.is_marked(place_);
    const bool has_type = json_.contains("type");
    const bool implies_object = document_.implies_objects() && part_.lists_properties && !has_type;
    if (implies_object) part_.types &= kObjectType;
    if (is_nullable_ && (has_type || implies_object)) part_.types |= kNullType;
    return std::move(part_);
  }

 private:
  using Readers = std::map<std::string_view, void (KeywordReader::*)(const Json&)>;

  static const Readers& readers() {
    static const Readers kReaders = {
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
        {"minContains", &KeywordReader::read_contained_count},
        {"maxContains", &KeywordReader::read_contained_count},
        {"not", &KeywordReader::read_not},
        {"if", &KeywordReader::read_condition},
        {"then", &KeywordReader::read_consequence},
        {"else", &KeywordReader::read_consequence},
        {"dependencies", &KeywordReader::read_dependencies},
        {"dependentRequired", &KeywordReader::read_dependencies},
        {"dependentSchemas", &KeywordReader::read_dependencies},
        {"unevaluatedProperties", &KeywordReader::read_unevaluated},
        {"unevaluatedItems", &KeywordReader::read_unevaluated},
        {"nullable", &KeywordReader::read_nullable},
        {"properties", &KeywordReader::read_properties},
        {"patternProperties", &KeywordReader::read_properties},
        {"additionalProperties", &KeywordReader::read_sub_schema},
        {"propertyNames", &KeywordReader::read_sub_schema},
        {"required", &KeywordReader::read_required},
        {"anyOf", &KeywordReader::read_choice},
        {"oneOf", &KeywordReader::read_choice},
    };
    return kReaders;
  }

  // A keyword that no draft defines is an annotation (2020-12, section 6.5), which does not constrain values. But a
  // word that looks like a misspelled keyword is an error, because the schema probably means the keyword.
  void read_unknown() {
    std::string_view meant;
    for (const auto& [keyword, reader] : readers()) {
      if (keyword.size() >= kShortestMisspelled && is_misspelled(keyword_, keyword)) meant = keyword;
    }
    const bool is_word = keyword_.find_first_of("_$@") == 0 || equals_ignoring_case(keyword_, meant) ||
                         std::ranges::find(kOtherWords, keyword_) != kOtherWords.end();
    if (is_word || meant.empty()) return document_.note_ignored(place_, keyword_);
    refuse("the keyword is not known; was \"" + std::string(meant) + "\" meant?");
  }

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
      if (document_.is_marked(place_) && name == kFraction) {
        part_.types |= kFractionType;
        continue;
      }
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

  // In draft 4 exclusiveMinimum and exclusiveMaximum are booleans that belong to minimum and maximum.
  void read_bound(const Json& value) {
    const bool is_exclusive = keyword_.starts_with("exclusive");
    if (is_exclusive && value.is_boolean()) return;
    if (!value.is_number()) return wrong("not a number");
    const auto flag = json_.find(keyword_ == "minimum" ? "exclusiveMinimum" : "exclusiveMaximum");
    const bool open = is_exclusive || (flag != json_.end() && *flag == true);
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
      // Ignore a maximum above kMaxRepetition, because no answer is that long. A minimum above it is an error.
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
    if (keyword_ == "format" && format_pattern(text) == nullptr) {
      if (std::ranges::find(kFormatsOfAnyText, text) == kFormatsOfAnyText.end())
        document_.note_ignored(place_, keyword_);
      return;
    }
    SchemaPart::Texts& texts = keyword_ == "pattern"       ? part_.patterns
                               : keyword_ == "format"      ? part_.formats
                               : keyword_ == kOtherPattern ? part_.other_patterns
                                                           : part_.other_formats;
    texts.emplace_back(text, place_);
  }

  void read_excluded(const Json& value) {
    for (const Json& one : value) {
      if (one.is_null()) {
        part_.types &= ~kNullType;
      } else if (one.is_structured() && one.empty()) {
        (one.is_array() ? part_.item_count : part_.property_count).min = 1;
      } else {
        part_.excluded.push_back({&one, document_.value_number(one)});
      }
    }
  }

  void read_name_outside(const Json& value) {
    SchemaPart::NameOutside names_outside;
    for (const Json& name : value.at("names")) names_outside.names.push_back(name.get_ref<const std::string&>());
    for (const Json& name : value.at("patterns")) names_outside.patterns.push_back(name.get_ref<const std::string&>());
    part_.names_outside.push_back(std::move(names_outside));
  }

  void read_first_items(const Json& value) {
    if (!value.is_array()) return wrong("not an array");
    for (const Json& item : value) {
      if (!is_schema(item)) return;
      part_.first_items.push_back(document_.at(item));
    }
  }

  // Reads `items`. If it is an array, it has the meaning of prefixItems, as in earlier drafts.
  void read_items(const Json& value) {
    if (value.is_array()) return read_first_items(value);
    if (!is_schema(value)) return;
    part_.other_items = document_.at(value);
    part_.evaluates_items = true;
  }

  void read_additional_items(const Json& value) {
    const auto items = json_.find("items");
    if (items == json_.end() || !items->is_array()) return;  // additionalItems has no effect unless `items` is an array
    if (!is_schema(value)) return;
    part_.other_items = document_.at(value);
    part_.evaluates_items = true;
  }

  void read_unique(const Json& value) {
    if (!value.is_boolean()) return wrong("not a boolean");
    part_.unique = value.get<bool>();
  }

  void read_contained(const Json& value) {
    if (!is_schema(value)) return;
    part_.has_contains = true;
    const auto count = [&](const char* keyword, uint32_t otherwise) {
      const auto found = json_.find(keyword);
      if (found == json_.end() || !found->is_number()) return otherwise;
      const Decimal number = decimal_of(*found);
      return number.whole.size() < 6 ? static_cast<uint32_t>(std::stoul(number.whole)) : kMaxRepetition;
    };
    const SchemaPart::Contained contained{
        .schema = document_.at(value), .least = count("minContains", 1), .most = count("maxContains", kUnbounded)};
    if (contained.least > 0 || contained.most != kUnbounded) part_.contained.push_back(contained);
  }
  // Reads minContains or maxContains, which has an effect only together with `contains`.
  void read_contained_count(const Json& value) {
    const bool is_count = value.is_number() && !decimal_of(value).negative && decimal_of(value).fraction.empty();
    if (!is_count) wrong("not a whole number of 0 or more");
  }

  void read_not(const Json& value) {
    if (is_schema(value)) add_conjunct(document_.negation_of(document_.at(value)));
  }

  // Ignores `if` without then and else, and then/else without `if`.
  void read_condition(const Json& value) {
    if (!is_schema(value)) return;
    // Without then and else, `if` matters only for keywords such as unevaluatedProperties, which depend on what it
    // evaluates.
    const bool matters = json_.contains("then") || json_.contains("else") || json_.contains("unevaluatedProperties") ||
                         json_.contains("unevaluatedItems");
    if (!matters) return;
    add_conjunct(document_.conditional_of(place_));
  }
  void read_consequence(const Json& value) { is_schema(value); }

  void read_dependencies(const Json& value) {
    if (!value.is_object()) return wrong("not an object");
    if (value.size() > kMostProperties) return too_many();
    for (const auto& item : value.items()) add_conjunct(document_.dependency_of(place_, keyword_, item.key()));
  }

  void add_conjunct(const Result<SchemaId>& schema) {
    if (!schema.ok()) {
      if (status_.ok()) status_ = schema.status();
    } else if (*schema == kNoSchema) {
      part_.types = 0;
    } else if (*schema != kAnySchema) {
      part_.conjuncts.push_back(*schema);
    }
  }

  void read_unevaluated(const Json& value) {
    if (!is_schema(value)) return;
    const SchemaId schema = document_.at(value);
    if (keyword_ == "unevaluatedItems") {
      part_.unevaluated_items = schema;
      part_.evaluates_items |= schema == kAnySchema;
    } else {
      part_.unevaluated_properties = schema;
      part_.evaluates_properties |= schema == kAnySchema;
      part_.mentions_others = true;
    }
  }

  void read_nullable(const Json& value) {
    if (document_.strict()) return document_.note_ignored(place_, keyword_);
    if (!value.is_boolean()) return wrong("not a boolean");
    is_nullable_ = value.get<bool>();
  }

  void read_properties(const Json& value) {
    if (!value.is_object()) return wrong("not an object");
    if (value.size() > kMostProperties) return too_many();
    part_.mentions_others |= keyword_ != "properties";
    SchemaPart::Named& named = keyword_ == "properties" ? part_.properties : part_.pattern_properties;
    for (const auto& item : value.items()) {
      if (!is_schema(item.value())) return;
      named.emplace_back(item.key(), document_.at(item.value()));
    }
  }

  void read_sub_schema(const Json& value) {
    if (!is_schema(value)) return;
    part_.mentions_others = true;
    if (keyword_ == "propertyNames") {
      part_.property_names.push_back(document_.at(value));
    } else {
      part_.other_properties = document_.at(value);
      part_.evaluates_properties = true;
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
  bool is_nullable_ = false;
  Status status_;
};

}  // namespace

Result<SchemaPart> read_keywords(SchemaDocument& document, PlaceId place) {
  return KeywordReader(document, place).read();
}

}  // namespace ibid
