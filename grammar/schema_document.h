// SchemaDocument: a JSON Schema as a whole: its places, what its references refer to, and messages that say where
// something stands. A schema is a set of places: all of them ask something of a value. So merging schemas copies
// nothing, equal ones have equal numbers, and a document has finitely many, however they refer to each other.
// Not thread-safe. The JSON and the budget must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/json_limits.h"
#include "base/result.h"
#include "grammar/compile_budget.h"

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
  // What both ask.
  SchemaId both(SchemaId a, SchemaId b);
  // Ascending, of equal ones the first. None for kAnySchema and kNoSchema.
  std::span<const PlaceId> places(SchemaId schema) const { return sets_[schema]; }

  const Json& json(PlaceId place) const { return *places_[place].json; }
  // The first place that has equal content and means the same.
  PlaceId first_like(PlaceId place) const { return places_[place].first_like; }
  std::string pointer(PlaceId place) const;       // "#/properties/a"
  std::string pointer_of(SchemaId schema) const;  // of its first place
  // What a $ref at a place refers to. Errors: kUnsupported for other documents, kInvalidArgument.
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

}  // namespace ibid
