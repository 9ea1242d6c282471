// SchemaPart: what one schema asks of a value, with its $ref and allOf taken in: one list of demands for each type.
// anyOf and oneOf are kept as they are. A value; merging two gives what both ask.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sampling/grammar/decimal_ranges.h"
#include "sampling/grammar/schema_document.h"

namespace ibid {

// Types of JSON values, one bit each. Numbers are of two: those that are integers, and others.
enum JsonTypes : unsigned {
  kNullType = 1,
  kBooleanType = 2,
  kObjectType = 4,
  kArrayType = 8,
  kStringType = 16,
  kFractionType = 32,
  kIntegerType = 64,
  kAllTypes = 127,
};
unsigned type_of(const Json& value);

struct CountBounds {
  uint32_t min = 0;
  uint32_t max = kUnbounded;
  void meet(const CountBounds& other) {
    min = std::max(min, other.min);
    max = std::min(max, other.max);
  }
  bool any() const { return min > 0 || max != kUnbounded; }
};

struct SchemaPart {
  using Named = std::vector<std::pair<std::string, SubSchema>>;
  struct Choice {
    std::vector<SubSchema> branches;
    bool exclusive = false;  // oneOf
    std::string pointer;
  };

  std::string pointer;
  unsigned types = kAllTypes;
  std::optional<std::vector<Json>> values;  // enum, const
  NumberBounds numbers;
  CountBounds length;
  std::vector<std::pair<std::string, std::string>> patterns;  // (expression, pointer)
  std::vector<std::pair<std::string, std::string>> formats;   // (name, pointer)
  CountBounds item_count;
  std::vector<SubSchema> first_items;
  SubSchema other_items;
  CountBounds property_count;
  Named properties;                         // in the order of the schema
  std::vector<std::string> required;
  Named pattern_properties;
  SubSchema other_properties;
  std::vector<SubSchema> property_names;
  std::vector<Choice> choices;

  bool asks_of_strings() const { return length.any() || !patterns.empty() || !formats.empty(); }
  bool asks_of_arrays() const;
  bool asks_of_objects() const;
  // Any value will do, but for the choices.
  bool asks_nothing() const;
  const SubSchema* property(const std::string& name) const;
};

// Reads `sub`, and what its $ref and allOf bring.
// Errors: kUnsupported and kInvalidArgument with the place of the keyword; kLimitExceeded.
Result<SchemaPart> read_schema(const SchemaDocument& document, const SubSchema& sub);

// What both ask. Error: kUnsupported where that cannot be said.
Result<SchemaPart> merge_parts(SchemaPart a, const SchemaPart& b);

// Both schemas: their allOf.
SubSchema both(const SubSchema& a, const SubSchema& b);

// Whether a pattern matches within `text`. Errors: those of compiling it.
Result<bool> pattern_finds(const std::string& pattern, const std::string& text);

}  // namespace ibid
