#include "grammar/schema_keywords.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <unordered_set>

namespace ibid {
namespace {

// Keywords that say nothing of values, or are read elsewhere.
constexpr std::array<std::string_view, 24> kAnnotations = {
    "title",       "description",     "default",          "examples",      "example", "$comment",     "deprecated",
    "readOnly",    "writeOnly",       "$schema",          "$id",           "$anchor", "$defs",        "definitions",
    "$vocabulary", "contentEncoding", "contentMediaType", "contentSchema", "$ref",    "allOf",        "$dynamicAnchor",
    "discriminator", "externalDocs",  "xml"};

// Formats that say what a string or number is for, and nothing of how it is spelled.
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
  void too_many() { set(ErrorCode::kLimitExceeded, "more than " + std::to_string(kMostProperties) + " of them"); }
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
    if (names.empty()) wrong("no type");
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
    if (count.negative || !count.fraction.empty()) return wrong("not a count");
    const bool is_min = keyword_.starts_with("min");
    uint32_t n = kMaxRepetition + 1;
    if (count.whole.size() < 10) n = static_cast<uint32_t>(std::min(std::stoul(count.whole), size_t{n}));
    if (n > kMaxRepetition) {
      // No answer is so long. To forbid that it gets longer is to forbid nothing.
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

  // An array here is how earlier drafts wrote prefixItems.
  void read_items(const Json& value) {
    if (value.is_array()) return read_first_items(value);
    if (is_schema(value)) part_.other_items = document_.at(value);
  }

  void read_additional_items(const Json& value) {
    const auto items = json_.find("items");
    if (items == json_.end() || !items->is_array()) return;  // says nothing then
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
  // Read with `contains`; without it they say nothing.
  void read_least_contained(const Json& value) {
    const bool is_count = value.is_number() && !decimal_of(value).negative && decimal_of(value).fraction.empty();
    if (!is_count) wrong("not a count");
  }
  void read_most_contained(const Json& value) {
    read_least_contained(value);
    if (json_.contains("contains")) refuse("the keyword is not supported");
  }

  // Each says nothing without the other.
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

}  // namespace

Result<SchemaPart> read_keywords(SchemaDocument& document, PlaceId place) {
  return KeywordReader(document, place).read();
}

}  // namespace ibid
