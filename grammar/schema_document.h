// SchemaDocument: a whole JSON Schema: its places (values in the JSON), the targets of its references, and messages
// that name a place. A schema is a set of places, all of which constrain a value. So merging schemas copies nothing,
// equal sets have equal ids, and a document has finitely many schemas, however its references are nested. Not
// thread-safe. The JSON and the budget must outlive the document.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/json_limits.h"
#include "base/result.h"
#include "grammar/compile_budget.h"
#include "grammar/json_writer.h"

namespace ibid {

// --- PatternSearch: tests whether patterns of a schema match its names and values. Each pattern is compiled once, and
// computed results are kept. Not thread-safe. The budget must outlive it.

class PatternSearch {
 public:
  explicit PatternSearch(CompileBudget& budget);
  PatternSearch(PatternSearch&&) noexcept;
  ~PatternSearch();

  // Returns whether the pattern matches a part of `text`. Errors: the pattern's; kLimitExceeded, kCancelled.
  Result<bool> finds(std::string_view pattern, std::string_view text);
  size_t n_compiled() const { return known_.size(); }

 private:
  struct Compiled;
  Result<std::unique_ptr<Compiled>> compile(std::string_view pattern);

  CompileBudget* budget_;
  std::map<std::string, Result<std::unique_ptr<Compiled>>, std::less<>> known_;
};

// --- SchemaDocument.

using PlaceId = uint32_t;                  // a value in the document, in text order
using SchemaId = uint32_t;                 // a set of places
inline constexpr SchemaId kAnySchema = 0;  // true, {}
inline constexpr SchemaId kNoSchema = 1;   // false

class SchemaDocument {
 public:
  // Errors: kInvalidArgument for a duplicate $anchor or $id; kLimitExceeded.
  static Result<SchemaDocument> create(const Json& root, CompileBudget& budget);

  SchemaId root() { return at(*places_[0].json); }
  // Returns the schema at a place. REQUIRES: `place` is a value in the document.
  SchemaId at(const Json& place);
  SchemaId schema_of(PlaceId place);
  // Returns the schema with the constraints of both.
  SchemaId both(SchemaId a, SchemaId b);
  // Returns the places of a schema, sorted; among equal places only the first. Empty for kAnySchema and kNoSchema.
  std::span<const PlaceId> places(SchemaId schema) const { return sets_[schema]; }

  const Json& json(PlaceId place) const { return *places_[place].json; }
  // Returns the first place with equal content and meaning.
  PlaceId first_like(PlaceId place) const { return places_[place].first_like; }
  std::string pointer(PlaceId place) const;       // "#/properties/a"
  std::string pointer_of(SchemaId schema) const;  // JSON pointer to the first place of the schema
  // Returns the target of a $ref. Errors: kUnsupported for a reference to another document, kInvalidArgument.
  Result<PlaceId> resolve(const std::string& reference, PlaceId from) const;

  // Returns a number that is equal for values that are equal in JSON Schema: 1 and 1.0, objects in any order of keys.
  uint32_t value_number(const Json& value);

  // Charges work to the budget. Errors: kLimitExceeded, kCancelled, with the schema's place.
  Status spend(uint64_t n, SchemaId where) const;
  CompileBudget& budget() const { return *budget_; }
  PatternSearch& patterns() { return patterns_; }

 private:
  enum class Role : uint8_t { kSchema, kSchemas, kValue };
  struct Place {
    const Json* json;
    PlaceId parent;
    uint32_t index;          // in an array
    const std::string* key;  // in an object
    uint32_t resource;
    PlaceId first_like;
  };
  // A subschema with an $id, or the whole document: a base for references.
  struct Resource {
    std::string uri;
    PlaceId root;
  };

  explicit SchemaDocument(CompileBudget& budget) : budget_(&budget), patterns_(budget) {}
  PlaceId add_place(const Json& json, Place place, Role role, size_t depth);
  void name_place(PlaceId place);
  void add_anchor(PlaceId place, const std::string& name);
  static Role role_of(const std::string& keyword, const Json& value);
  void refuse(PlaceId place, std::string_view keyword, std::string_view what);

  CompileBudget* budget_;
  PatternSearch patterns_;
  Status status_;
  std::vector<Place> places_;
  std::vector<Resource> resources_;
  std::unordered_map<const Json*, PlaceId> place_of_;
  std::unordered_map<std::string, PlaceId> contents_;
  std::map<std::string, uint32_t> resource_of_;
  std::map<std::pair<uint32_t, std::string>, PlaceId> anchors_;
  std::vector<std::vector<PlaceId>> sets_ = {{}, {}};
  std::map<std::vector<PlaceId>, SchemaId> set_numbers_;
  std::unordered_map<uint64_t, SchemaId> unions_;
  std::unordered_map<std::string, uint32_t> value_numbers_;
};

// Appends a name to a JSON pointer: "#/a/b" + "c/d" -> "#/a/b/c~1d".
std::string child_pointer(const std::string& pointer, std::string_view name);

Status schema_error(ErrorCode code, const std::string& pointer, std::string_view keyword, std::string_view what);

// --- SchemaPart: the constraints of one schema on a value, with $ref and allOf merged: one list of constraints for
// each type. anyOf and oneOf stay separate, as choices. A value, valid as long as its document. merge_parts() combines
// the constraints of two parts.

// Types of JSON values, one bit each. Numbers have two: integers and others.
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

// A value of enum or const. Equal values have equal numbers (SchemaDocument::value_number()).
struct ListedValue {
  const Json* json;
  uint32_t number;
  bool is_integer = false;  // its schema requires a number without a fraction
};

struct SchemaPart {
  using Named = std::vector<std::pair<std::string_view, SchemaId>>;
  // A pattern or format, with the place of its schema.
  using Texts = std::vector<std::pair<std::string_view, PlaceId>>;
  struct Choice {
    std::vector<SchemaId> branches;
    bool exclusive = false;  // true for oneOf
    PlaceId place = 0;       // place of its schema
  };

  // Requirement of `contains`: at least `least` items match the schema.
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
  bool unique = false;  // no two items are equal
  std::vector<Contained> contained;
  std::vector<SchemaId> first_items;
  SchemaId other_items = kAnySchema;
  CountBounds property_count;
  Named properties;                        // in the order of the schema
  std::vector<std::string_view> required;  // no duplicates
  Named pattern_properties;
  SchemaId other_properties = kAnySchema;
  std::vector<SchemaId> property_names;
  std::vector<Choice> choices;

  bool asks_of_strings() const { return length.any() || !patterns.empty() || !formats.empty(); }
  bool asks_of_arrays() const;
  bool asks_of_objects() const;
  // True if any value satisfies the part, not considering choices.
  bool is_unconstrained() const;
  // Approximate number of its elements: the cost of copying it.
  size_t size() const;
};

// Looks up the properties of a part by name. The part must outlive it.
class PropertyIndex {
 public:
  explicit PropertyIndex(const SchemaPart& part);
  // Returns nullptr if the schema does not declare the name.
  const SchemaId* find(std::string_view name) const {
    const auto found = properties_.find(name);
    return found == properties_.end() ? nullptr : &found->second;
  }
  bool requires_name(std::string_view name) const { return required_.contains(name); }

 private:
  std::unordered_map<std::string_view, SchemaId> properties_;
  std::unordered_map<std::string_view, bool> required_;
};

// Reads `schema`, and merges its $ref and allOf. Errors: kUnsupported and kInvalidArgument with the place of the
// keyword; kLimitExceeded, kCancelled.
Result<SchemaPart> read_schema(SchemaDocument& document, SchemaId schema);

// Merges the constraints of two parts. Errors: kUnsupported if they cannot be combined; kLimitExceeded, kCancelled.
Result<SchemaPart> merge_parts(SchemaDocument& document, SchemaPart a, const SchemaPart& b);

// Returns the JSON pointer of a pattern or format: "#/items/pattern".
std::string pointer_of_text(const SchemaDocument& document, PlaceId place, std::string_view keyword);

}  // namespace ibid
