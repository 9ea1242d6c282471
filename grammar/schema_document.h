// SchemaDocument: a whole JSON Schema: its places (a place is a value in the schema's JSON), the targets of its
// references, and messages that name a place. A schema is a set of places, and a value must satisfy all of them. So
// merging schemas copies nothing, equal sets have equal ids, and a document has finitely many schemas, however its
// references are nested. Not thread-safe. The JSON and the budget must outlive the document.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/json_limits.h"
#include "base/result.h"
#include "grammar/compile_budget.h"
#include "grammar/json_writer.h"

namespace ibid {

// --- PatternSearch: tests whether patterns of a schema match its names and values. Compiles each pattern once, and
// keeps computed results. Not thread-safe. The budget must outlive this object.

class PatternSearch {
 public:
  explicit PatternSearch(CompileBudget& budget);
  PatternSearch(PatternSearch&&) noexcept;
  ~PatternSearch();

  // Returns whether the pattern matches a part of `text`. Errors: those of compiling the pattern; kLimitExceeded,
  // kCancelled.
  Result<bool> finds(std::string_view pattern, std::string_view text);
  size_t n_compiled() const { return known_.size(); }

 private:
  struct Compiled;
  Result<std::unique_ptr<Compiled>> compile(std::string_view pattern);

  CompileBudget* budget_;
  std::map<std::string, Result<std::unique_ptr<Compiled>>, std::less<>> known_;
};

// --- SchemaDocument.

using PlaceId = uint32_t;                  // a value in the document, numbered in text order
using SchemaId = uint32_t;                 // a set of places
inline constexpr SchemaId kAnySchema = 0;  // the schemas true and {}
inline constexpr SchemaId kNoSchema = 1;   // the schema false

class SchemaDocument {
 public:
  // strict: JsonFormat::strict. implies_objects: a schema with `properties` and without `type` means an object. Errors:
  // kInvalidArgument for a duplicate $anchor or $id; kLimitExceeded.
  static Result<SchemaDocument> create(const Json& root, bool strict, bool implies_objects, CompileBudget& budget);

  SchemaId root() { return at(*places_[0].json); }
  // Returns the schema at one place. REQUIRES: `place` is a value in the document.
  SchemaId at(const Json& place);
  SchemaId schema_of(PlaceId place);
  // Returns the schema that has the constraints of both schemas.
  SchemaId conjunction(SchemaId a, SchemaId b);
  // Returns the schema's places, sorted; of equal places only the first. Empty for kAnySchema and kNoSchema.
  std::span<const PlaceId> places(SchemaId schema) const { return sets_[schema]; }

  const Json& json(PlaceId place) const { return *places_[place].json; }
  // Returns the first place of the document whose JSON has the same content and meaning as that at `place`.
  PlaceId first_like(PlaceId place) const { return places_[place].first_like; }
  std::string pointer(PlaceId place) const;       // for example "#/properties/a"
  std::string pointer_of(SchemaId schema) const;  // JSON pointer to the first place of the schema
  // Returns the target of a $ref. Errors: kUnsupported for a reference to another document, kInvalidArgument.
  Result<PlaceId> resolve(const std::string& reference, PlaceId from) const;

  // Returns a number that is equal for equal values of JSON Schema: 1 and 1.0, or objects in any order of keys.
  uint32_t value_number(const Json& value);

  // --- Derived schemas: a keyword of the document rewritten in keywords that read_keywords() reads directly. Errors:
  // those of resolve(), kInvalidArgument for a malformed keyword, kLimitExceeded; messages name the place of the
  // keyword.

  // Returns the schema of the values that `schema` rejects. Error: kUnsupported for a keyword that cannot be negated.
  Result<SchemaId> negation_of(SchemaId schema);
  // Returns the schema of `if`, `then` and `else` of a place. REQUIRES: the place has `if`.
  Result<SchemaId> conditional_of(PlaceId place);
  // Returns the schema of an existing entry `name` of dependencies, dependentRequired or dependentSchemas.
  Result<SchemaId> dependency_of(PlaceId place, const std::string& keyword, const std::string& name);
  // True if the place is in a derived schema and has the keyword kDerivedMark.
  bool is_marked(PlaceId place) const { return places_[place].marked; }

  // Counts the nested reads and negations of schemas, because schemas may refer to each other endlessly.
  class NestedRead {
   public:
    explicit NestedRead(SchemaDocument& document) : document_(document) { ++document_.n_nested_; }
    ~NestedRead() { --document_.n_nested_; }
    NestedRead(const NestedRead&) = delete;
    NestedRead& operator=(const NestedRead&) = delete;
    // Error: kInvalidArgument if schemas are nested too deeply.
    Status check(PlaceId place) const;

   private:
    SchemaDocument& document_;
  };

  bool strict() const { return strict_; }
  bool implies_objects() const { return implies_objects_; }
  // True if the document declares an early draft, in which the keywords beside a $ref have no effect.
  bool refs_stand_alone() const { return refs_stand_alone_; }
  // Records a keyword that has no effect on the grammar.
  void note_ignored(PlaceId place, std::string_view keyword);
  // Returns the pointers recorded by note_ignored(), each once, at most kMostIgnored.
  std::vector<std::string> take_ignored() { return std::move(ignored_); }

  // Charges work to the budget. Errors: kLimitExceeded, kCancelled, with the schema's place.
  Status spend(uint64_t n, SchemaId where) const;
  CompileBudget& budget() const { return *budget_; }
  PatternSearch& patterns() { return patterns_; }

 private:
  enum class Role : uint8_t { kSchema, kSchemas, kValue };
  struct Place {
    const Json* json;
    PlaceId parent;
    uint32_t index;          // index in the array that contains the place
    const std::string* key;  // key in the object that contains the place
    uint32_t resource;
    PlaceId first_like;
    bool derived = false, marked = false;
    PlaceId negated = 0;  // for a schema {"not": S}: the first place whose content equals S (first_like()); else 0
  };
  // A subschema with an $id, or the whole document: a base for references.
  struct Resource {
    std::string uri;
    PlaceId root;
  };

  SchemaDocument(CompileBudget& budget, bool strict, bool implies_objects)
      : budget_(&budget), patterns_(budget), strict_(strict), implies_objects_(implies_objects) {}
  PlaceId add_place(const Json& json, Place place, Role role, size_t depth);
  void add_names_of(PlaceId place);
  // Returns the absolute URI of the $id or id of a schema.
  std::string address_of(const std::string& id, PlaceId place) const;
  // Returns the schema that `make` returns as JSON; calls `make` once for each (place, keyword, name). Messages name
  // the place, and the keyword if it is not empty.
  Result<SchemaId> derived(PlaceId place, const std::string& keyword, const std::string& name,
                           const std::function<Result<Json>()>& make);
  Result<SchemaId> negate(PlaceId place);
  void add_anchor(PlaceId place, const std::string& name);
  static Role role_of(const std::string& keyword, const Json& value);
  void refuse(PlaceId place, std::string_view keyword, std::string_view what);

  CompileBudget* budget_;
  PatternSearch patterns_;
  bool strict_, implies_objects_, refs_stand_alone_ = false;
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
  std::map<std::tuple<PlaceId, std::string, std::string>, std::optional<Result<SchemaId>>> derived_;
  std::deque<Json> derived_json_;  // JSON of derived schemas; place_of_ refers to values in it
  int n_nested_ = 0;               // number of NestedRead objects that exist
  std::vector<std::string> ignored_;
  std::unordered_set<std::string> ignored_names_;
};

// Keywords that occur only in derived schemas, and express negations. kDerivedMark is in each schema that has another
// of these keywords; no text of JSON can have its value. kExcluded: an array of values; a value must differ from all of
// them. kOtherPattern, kOtherFormat: a pattern or format that a string must not match. kNameOutside: {"names": [...],
// "patterns": [...]}: an object must have a property whose name is not in names and matches no pattern of patterns.
// kFraction: the type of numbers that are not integers.
inline constexpr const char* kDerivedMark = "derived";
inline constexpr const char* kExcluded = "excluded";
inline constexpr const char* kOtherPattern = "otherPattern";
inline constexpr const char* kOtherFormat = "otherFormat";
inline constexpr const char* kNameOutside = "outside";
inline constexpr const char* kFraction = "fraction";

// Appends a name to a JSON pointer: "#/a/b" + "c/d" -> "#/a/b/c~1d".
std::string child_pointer(const std::string& pointer, std::string_view name);

Status schema_error(ErrorCode code, const std::string& pointer, std::string_view keyword, std::string_view what);

// --- SchemaPart: the constraints of one schema on a value, with $ref and allOf merged: one list of constraints for
// each type. anyOf and oneOf stay separate, as choices. A SchemaPart is valid as long as its document. merge_parts()
// combines the constraints of two parts.

// Types of JSON values, one bit each. Numbers have two types: integers and other numbers.
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
  void intersect(const CountBounds& other) {
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
  bool is_integer = false;  // the schema of the value requires numbers without a fraction
};

struct SchemaPart {
  using Named = std::vector<std::pair<std::string_view, SchemaId>>;
  // Patterns or formats, each with the place of the schema that has it.
  using Texts = std::vector<std::pair<std::string_view, PlaceId>>;
  struct Choice {
    std::vector<SchemaId> branches;
    bool exclusive = false;  // true for oneOf, false for anyOf
    PlaceId place = 0;       // place of the schema that has the anyOf or oneOf
  };

  // Requirement of `contains`: at least `least` and at most `most` items match the schema.
  struct Contained {
    SchemaId schema;
    uint32_t least;
    uint32_t most = kUnbounded;
    bool operator==(const Contained&) const = default;
  };

  // The constraint that an object has a property whose name is not in `names` and matches no pattern of `patterns`.
  struct NameOutside {
    std::vector<std::string_view> names, patterns;
    bool operator==(const NameOutside&) const = default;
  };

  SchemaId schema = kAnySchema;
  unsigned types = kAllTypes;
  std::optional<std::vector<ListedValue>> values;
  std::vector<ListedValue> excluded;  // scalars that the schema rejects
  NumberBounds numbers;
  CountBounds length;
  Texts patterns, formats;
  Texts other_patterns, other_formats;  // patterns and formats that a string must not match
  CountBounds item_count;
  bool unique = false;  // uniqueItems: no two items are equal
  std::vector<Contained> contained;
  std::vector<SchemaId> first_items;
  SchemaId other_items = kAnySchema;
  CountBounds property_count;
  // Properties in the order of the schema; each schema includes those of patternProperties that its name matches.
  Named properties;
  std::vector<std::string_view> required;  // no duplicates
  Named pattern_properties;
  SchemaId other_properties = kAnySchema;
  bool lists_properties = false;  // a schema of the document itself, not only a derived one, has `properties`
  bool mentions_others = false;   // a schema of the document itself constrains properties that it does not list
  // Schemas of properties or items come from a negated schema, in which they evaluate no properties or items.
  bool has_derived_names = false;
  std::vector<SchemaId> property_names;
  std::vector<NameOutside> names_outside;
  bool needs_other_property = false;  // at least one undeclared property is required
  // unevaluatedProperties and unevaluatedItems take effect after a branch of every anyOf and oneOf is chosen, unless
  // another keyword evaluates all properties or items.
  SchemaId unevaluated_properties = kAnySchema, unevaluated_items = kAnySchema;
  bool evaluates_properties = false, evaluates_items = false;
  bool has_contains = false;
  std::vector<Choice> choices;
  std::vector<SchemaId> conjuncts;  // derived schemas that a value must satisfy too; read_schema() merges them

  bool asks_of_strings() const {
    return length.any() || !patterns.empty() || !formats.empty() || !other_patterns.empty() || !other_formats.empty() ||
           excludes(kStringType);
  }
  // True if some schemas apply only to properties with certain names or items at certain positions.
  bool names_values() const;
  // Returns whether values of one of `some_types` are excluded.
  bool excludes(unsigned some_types) const;
  bool excludes(const ListedValue& value) const;
  bool asks_of_arrays() const;
  bool asks_of_objects() const;
  // True if every value satisfies the part, apart from its choices (anyOf and oneOf).
  bool is_unconstrained() const;
  // Approximate number of the part's elements, as a measure of the cost of copying it.
  size_t size() const;
};

// Looks up the properties of a part by name. The part must outlive it.
class PropertyIndex {
 public:
  explicit PropertyIndex(const SchemaPart& part);
  // Returns the schema of a property; nullptr if the name is not declared.
  const SchemaId* find(std::string_view name) const {
    const auto found = properties_.find(name);
    return found == properties_.end() ? nullptr : &found->second;
  }
  bool requires_name(std::string_view name) const { return required_.contains(name); }

 private:
  std::unordered_map<std::string_view, SchemaId> properties_;
  std::unordered_map<std::string_view, bool> required_;
};

// Reads `schema`, and merges the schemas of its $ref and allOf. Errors: kUnsupported and kInvalidArgument with the
// place of the keyword; kLimitExceeded, kCancelled.
Result<SchemaPart> read_schema(SchemaDocument& document, SchemaId schema);

// As read_schema(), for a part that will be merged with others. Applies unevaluatedProperties and unevaluatedItems
// before the merge, because they concern only what `schema` itself evaluates. Error: also kUnsupported if such a schema
// has anyOf or oneOf as well.
Result<SchemaPart> read_schema_to_merge(SchemaDocument& document, SchemaId schema);

// Reads the keywords of one schema object, except $ref and allOf. Errors: those of read_schema(). REQUIRES: `place` is
// an object.
Result<SchemaPart> read_keywords(SchemaDocument& document, PlaceId place);

// Returns the constraints on a property that the schema does not declare.
Result<SchemaId> schema_for_undeclared(SchemaDocument& document, const SchemaPart& part, std::string_view name);

// Uses unevaluatedProperties and unevaluatedItems as the schemas of the undeclared properties and items. REQUIRES:
// `part` has no choices. Error: kUnsupported.
Status apply_unevaluated(SchemaDocument& document, SchemaPart& part);

// Merges the constraints of two parts. Errors: kUnsupported if two constraints cannot be combined; kLimitExceeded,
// kCancelled.
Result<SchemaPart> merge_parts(SchemaDocument& document, SchemaPart a, const SchemaPart& b);

// Returns the JSON pointer of a pattern or format: "#/items/pattern".
std::string pointer_of_text(const SchemaDocument& document, PlaceId place, std::string_view keyword);

}  // namespace ibid
