#include "sampling/grammar/schema_keywords.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

namespace ibid {
namespace {

// Keywords that say nothing of values, or are read elsewhere.
constexpr std::array<std::string_view, 21> kAnnotations = {
    "title",     "description", "default",          "examples",         "example",     "$comment",    "deprecated",
    "readOnly",  "writeOnly",   "$schema",          "$id",              "$anchor",     "$defs",       "definitions",
    "$vocabulary", "contentEncoding", "contentMediaType", "contentSchema", "$ref",     "allOf",       "$dynamicAnchor"};

constexpr std::array<std::pair<std::string_view, unsigned>, 7> kTypeNames = {{{"null", kNullType},
                                                                              {"boolean", kBooleanType},
                                                                              {"object", kObjectType},
                                                                              {"array", kArrayType},
                                                                              {"string", kStringType},
                                                                              {"number", kFractionType | kIntegerType},
                                                                              {"integer", kIntegerType}}};

// Merging two schemas compares each property with each.
constexpr size_t kMostProperties = 5000;

class KeywordReader {
 public:
  explicit KeywordReader(const SubSchema& sub) : sub_(sub) { part_.pointer = sub.pointer; }

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
        {"properties", &KeywordReader::read_properties},
        {"patternProperties", &KeywordReader::read_properties},
        {"additionalProperties", &KeywordReader::read_sub_schema},
        {"propertyNames", &KeywordReader::read_sub_schema},
        {"required", &KeywordReader::read_required},
        {"anyOf", &KeywordReader::read_choice},
        {"oneOf", &KeywordReader::read_choice},
    };
    for (const auto& item : sub_.schema.items()) {
      keyword_ = item.key();
      const auto reader = kReaders.find(keyword_);
      if (reader != kReaders.end()) {
        (this->*reader->second)(item.value());
      } else if (keyword_ == "$id" && sub_.pointer != "#") {
        refuse("a part of the schema with an address of its own is not supported");
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
    if (status_.ok()) status_ = schema_error(code, sub_.pointer, keyword_, what);
  }
  void too_many() { set(ErrorCode::kLimitExceeded, "more than " + std::to_string(kMostProperties) + " of them"); }
  std::string here() const { return child_pointer(sub_.pointer, keyword_); }
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
    set_values(std::vector<Json>(value.begin(), value.end()));
  }
  void read_const(const Json& value) { set_values({value}); }
  void set_values(std::vector<Json> values) {
    if (part_.values) {
      std::erase_if(values, [&](const Json& v) { return std::ranges::find(*part_.values, v) == part_.values->end(); });
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
    (keyword_ == "pattern" ? part_.patterns : part_.formats).emplace_back(value.get<std::string>(), here());
  }

  void read_first_items(const Json& value) {
    if (!value.is_array()) return wrong("not an array");
    for (size_t i = 0; i < value.size() && is_schema(value[i]); ++i) {
      part_.first_items.push_back({value[i], child_pointer(here(), std::to_string(i))});
    }
  }

  // An array here is how earlier drafts wrote prefixItems.
  void read_items(const Json& value) {
    if (value.is_array()) return read_first_items(value);
    if (is_schema(value)) part_.other_items = {value, here()};
  }

  void read_additional_items(const Json& value) {
    const auto items = sub_.schema.find("items");
    if (items == sub_.schema.end() || !items->is_array()) return;  // says nothing then
    if (is_schema(value)) part_.other_items = {value, here()};
  }

  void read_unique(const Json& value) {
    if (!value.is_boolean()) return wrong("not a boolean");
    if (value.get<bool>()) refuse("that items differ cannot be said by a grammar");
  }

  void read_properties(const Json& value) {
    if (!value.is_object()) return wrong("not an object");
    if (value.size() > kMostProperties) return too_many();
    SchemaPart::Named& named = keyword_ == "properties" ? part_.properties : part_.pattern_properties;
    for (const auto& item : value.items()) {
      if (!is_schema(item.value())) return;
      named.emplace_back(item.key(), SubSchema{item.value(), child_pointer(here(), item.key())});
    }
  }

  void read_sub_schema(const Json& value) {
    if (!is_schema(value)) return;
    if (keyword_ == "propertyNames") {
      part_.property_names.push_back({value, here()});
    } else {
      part_.other_properties = {value, here()};
    }
  }

  void read_required(const Json& value) {
    if (!value.is_array()) return wrong("not an array");
    if (value.size() > kMostProperties) return too_many();
    for (const Json& name : value) {
      if (!name.is_string()) return wrong("not an array of strings");
      if (std::ranges::find(part_.required, name.get_ref<const std::string&>()) == part_.required.end()) {
        part_.required.push_back(name.get<std::string>());
      }
    }
  }

  void read_choice(const Json& value) {
    if (!value.is_array() || value.empty()) return wrong("not an array of schemas");
    SchemaPart::Choice choice{.branches = {}, .exclusive = keyword_ == "oneOf", .pointer = here()};
    for (size_t i = 0; i < value.size(); ++i) {
      if (!is_schema(value[i])) return;
      choice.branches.push_back({value[i], child_pointer(here(), std::to_string(i))});
    }
    part_.choices.push_back(std::move(choice));
  }

  const SubSchema& sub_;
  SchemaPart part_;
  std::string keyword_;
  Status status_;
};

}  // namespace

Result<SchemaPart> read_keywords(const SubSchema& sub) { return KeywordReader(sub).read(); }

}  // namespace ibid
