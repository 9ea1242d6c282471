// SchemaDocument: a JSON Schema as a whole: its places, what its references refer to, and messages that say where
// something stands. A schema is a set of places: all of them ask something of a value. So merging schemas copies
// nothing, equal ones have equal numbers, and a document has finitely many, however they refer to each other.
// Not thread-safe. The JSON and the budget must outlive it.
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

// --- PatternSearch: whether patterns of a schema are found in names and values of it. Each pattern is compiled once,
// and what is found out about it is kept. Not thread-safe. The budget must outlive it.

class PatternSearch {
 public:
  explicit PatternSearch(CompileBudget& budget);
  PatternSearch(PatternSearch&&) noexcept;
  ~PatternSearch();

  // Whether the pattern matches within `text`. Errors: those of compiling it; kLimitExceeded, kCancelled.
  Result<bool> finds(std::string_view pattern, std::string_view text);
  size_t n_compiled() const { return known_.size(); }

 private:
  struct Compiled;
  Result<std::unique_ptr<Compiled>> compile(std::string_view pattern);

  CompileBudget* budget_;
  std::map<std::string, Result<std::unique_ptr<Compiled>>, std::less<>> known_;
};

// --- SchemaDocument.

using PlaceId = uint32_t;   // a value of the document, in the order of its text
using SchemaId = uint32_t;  // a set of places
inline constexpr SchemaId kAnySchema = 0;  // true, {}
inline constexpr SchemaId kNoSchema = 1;   // false

class SchemaDocument {
 public:
  // Errors: kInvalidArgument for an $anchor or $id that is there twice; kLimitExceeded.
  static Result<SchemaDocument> create(const Json& root, CompileBudget& budget);

  SchemaId root() { return at(*places_[0].json); }
  // The schema at a place. REQUIRES: a part of the document.
  SchemaId at(const Json& place);
  SchemaId schema_of(PlaceId place);
  // The demands of both.
  SchemaId both(SchemaId a, SchemaId b);
  // Ascending, of equal ones the first. None for kAnySchema and kNoSchema.
  std::span<const PlaceId> places(SchemaId schema) const { return sets_[schema]; }

  const Json& json(PlaceId place) const { return *places_[place].json; }
  // The first place that has equal content and means the same.
  PlaceId first_like(PlaceId place) const { return places_[place].first_like; }
  std::string pointer(PlaceId place) const;       // "#/properties/a"
  std::string pointer_of(SchemaId schema) const;  // of its first place
  // The place that a $ref refers to. Errors: kUnsupported for other documents, kInvalidArgument.
  Result<PlaceId> resolve(const std::string& reference, PlaceId from) const;

  // Equal for values that JSON Schema calls equal: 1 and 1.0, objects in any order.
  uint32_t value_number(const Json& value);

  // Takes work of the budget. Error: kLimitExceeded, kCancelled, with the schema's place.
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
  // A part with an address of its own ($id), or the whole.
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

// "#/a/b" + "c/d" -> "#/a/b/c~1d".
std::string child_pointer(const std::string& pointer, std::string_view name);

Status schema_error(ErrorCode code, const std::string& pointer, std::string_view keyword, std::string_view what);

// --- SchemaPart: what one schema asks of a value, with its $ref and allOf taken in: one list of demands for each
// type. anyOf and oneOf are kept as they are. A value, as long as its document is there; merging two gives what both
// ask.

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

// The demands of both. Errors: kUnsupported where that cannot be said; kLimitExceeded, kCancelled.
Result<SchemaPart> merge_parts(SchemaDocument& document, SchemaPart a, const SchemaPart& b);

// Where `patterns` or `formats` stands: "#/items/pattern".
std::string pointer_of_text(const SchemaDocument& document, PlaceId place, std::string_view keyword);

}  // namespace ibid
