// SchemaPart: what one schema asks of a value, with its $ref and allOf taken in: one list of demands for each type.
// anyOf and oneOf are kept as they are. A value, as long as its document is there; merging two gives what both ask.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "grammar/json_writer.h"
#include "grammar/schema_document.h"

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
  bool operator==(const CountBounds&) const = default;
};

// A value of enum or const. Equal ones have equal numbers.
struct ListedValue {
  const Json* json;
  uint32_t number;
  bool is_integer = false;  // its schema asks for a number without a fraction
};

struct SchemaPart {
  using Named = std::vector<std::pair<std::string_view, SchemaId>>;
  // A pattern or format, and the schema that asks for it.
  using Texts = std::vector<std::pair<std::string_view, PlaceId>>;
  struct Choice {
    std::vector<SchemaId> branches;
    bool exclusive = false;  // oneOf
    PlaceId place = 0;       // of the schema that has it
  };

  // At least so many items are of the schema.
  struct Contained {
    SchemaId schema;
    uint32_t least;
    bool operator==(const Contained&) const = default;
  };

  SchemaId schema = kAnySchema;
  unsigned types = kAllTypes;
  std::optional<std::vector<ListedValue>> values;
  NumberBounds numbers;
  CountBounds length;
  Texts patterns, formats;
  CountBounds item_count;
  bool unique = false;                      // no two items are equal
  std::vector<Contained> contained;
  std::vector<SchemaId> first_items;
  SchemaId other_items = kAnySchema;
  CountBounds property_count;
  Named properties;                         // in the order of the schema
  std::vector<std::string_view> required;   // none twice
  Named pattern_properties;
  SchemaId other_properties = kAnySchema;
  std::vector<SchemaId> property_names;
  std::vector<Choice> choices;

  bool asks_of_strings() const { return length.any() || !patterns.empty() || !formats.empty(); }
  bool asks_of_arrays() const;
  bool asks_of_objects() const;
  // Any value will do, but for the choices.
  bool asks_nothing() const;
  // About how many things it has: what copying it costs.
  size_t size() const;
};

// The properties of a part by name. The part must outlive it.
class PropertyIndex {
 public:
  explicit PropertyIndex(const SchemaPart& part);
  // nullptr: the schema says nothing of it by name.
  const SchemaId* find(std::string_view name) const {
    const auto found = properties_.find(name);
    return found == properties_.end() ? nullptr : &found->second;
  }
  bool requires_name(std::string_view name) const { return required_.contains(name); }

 private:
  std::unordered_map<std::string_view, SchemaId> properties_;
  std::unordered_map<std::string_view, bool> required_;
};

// Reads `schema`, and what its $ref and allOf bring.
// Errors: kUnsupported and kInvalidArgument with the place of the keyword; kLimitExceeded, kCancelled.
Result<SchemaPart> read_schema(SchemaDocument& document, SchemaId schema);

// What both ask. Errors: kUnsupported where that cannot be said; kLimitExceeded, kCancelled.
Result<SchemaPart> merge_parts(SchemaDocument& document, SchemaPart a, const SchemaPart& b);

// Where `patterns` or `formats` stands: "#/items/pattern".
std::string pointer_of_text(const SchemaDocument& document, PlaceId place, std::string_view keyword);

}  // namespace ibid
