// SchemaCompiler: makes the rules of a JSON Schema. Each subschema is one rule, found by the id of the subschema, so
// references may be cyclic. Not thread-safe.
#pragma once

#include <array>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/json_limits.h"
#include "base/result.h"
#include "grammar/configurations.h"
#include "grammar/json_writer.h"
#include "grammar/schema_document.h"

namespace ibid {

class SchemaCompiler {
 public:
  SchemaCompiler(SchemaDocument& document, GrammarRules& rules, const JsonFormat& format);

  // Defines the first rule of the grammar as the values of the schema that have one of `types`. Errors: those of
  // compile_json_schema().
  Status compile(SchemaId schema, unsigned types = kAllTypes);

 private:
  // Returns a call of the rule for the values of `schema`, which is defined later.
  ExprId call(SchemaId schema);
  Result<ExprId> values_of(SchemaId schema);
  Result<ExprId> values_of(const SchemaPart& part, size_t depth);
  Result<ExprId> chosen(SchemaPart part, size_t depth);
  Result<ExprId> branch_of(const SchemaPart& part, SchemaId branch, size_t depth);
  Result<ExprId> name_outside(SchemaPart part, size_t depth);
  Status exclude_others(const SchemaPart& part, const SchemaPart::Choice& choice,
                        std::vector<SchemaId>& merged_branches);
  Result<ExprId> listed(const SchemaPart& part);
  Result<ExprId> numbers(const SchemaPart& part);
  Status spend(size_t n, SchemaId where);

  SchemaDocument& document_;
  GrammarRules& rules_;
  const JsonFormat format_;
  JsonWriter writer_;
  std::unordered_map<SchemaId, RuleId> known_;
  std::deque<std::pair<RuleId, SchemaId>> todo_;
  size_t n_unordered_states_ = 0;  // number of states of all objects whose properties come in any order

  friend class ArrayCompiler;
  friend class ObjectCompiler;
};

// Decides whether listed values (enum, const) satisfy the rest of their schema. Errors: those of reading schemas;
// kLimitExceeded for a value that is nested too deeply.
class ValueChecker {
 public:
  explicit ValueChecker(SchemaDocument& document) : document_(document) {}

  // Returns whether `part` allows a value of enum or const. Ignores the choices of `part`, and its list of values.
  Result<bool> allows(const SchemaPart& part, const ListedValue& listed) const;

 private:
  Result<bool> satisfies(const Json& value, SchemaId schema, size_t depth) const;
  Result<bool> satisfies_choices(const Json& value, const SchemaPart& part, size_t depth) const;
  Result<bool> satisfies_array(const Json& value, const SchemaPart& part, size_t depth) const;
  Result<bool> satisfies_object(const Json& value, const SchemaPart& part, size_t depth) const;

  SchemaDocument& document_;
};

inline const std::array<Json, 2> kBooleanValues = {false, true};

// Returns the strings that the schema allows, with quotes (grammar/schema_strings.cc). Errors: kUnsupported and
// kInvalidArgument for patterns and formats; kLimitExceeded.
Result<ExprId> string_values(SchemaDocument& document, const SchemaPart& part, JsonWriter& writer);
// Returns the strings that the schema allows, without quotes and in canonical notation, as separate rules.
Result<GrammarRules> string_rules(SchemaDocument& document, const SchemaPart& part);
// Returns true if a string satisfies the schema.
Result<bool> string_allowed(SchemaDocument& document, const SchemaPart& part, const std::string& value);

// Returns the regular expression of a format ("date"); nullptr if the format is unknown or not regular.
const char* format_pattern(std::string_view name);

// Decides whether two schemas have no value in common.
class DisjointnessChecker {
 public:
  explicit DisjointnessChecker(SchemaDocument& document) : document_(document) {}

  struct Compared {
    explicit Compared(SchemaPart its) : part(std::move(its)), index(part) {}
    Compared(Compared&&) = delete;
    const SchemaPart part;
    const PropertyIndex index;
  };
  // Returns true if it is certain that no value satisfies both schemas. Errors: those of reading the schemas.
  Result<bool> are_disjoint(const Compared& a, const Compared& b, size_t depth = 0);

 private:
  Result<bool> differ_in_property(const Compared& a, const Compared& b, size_t depth);
  Result<bool> values_differ(SchemaId a, SchemaId b, size_t depth);

  SchemaDocument& document_;
  std::unordered_map<uint64_t, bool> known_;  // known results of are_disjoint(), by pair of schema ids
};

// --- ArrayCompiler: compiles the arrays that a schema allows to a grammar expression.

class ArrayCompiler {
 public:
  ArrayCompiler(SchemaCompiler& compiler, const SchemaPart& part)
      : compiler_(compiler),
        document_(compiler.document_),
        part_(part),
        rules_(compiler.rules_),
        writer_(compiler.writer_) {}

  // Errors: those of compile_json_schema().
  Result<ExprId> compile();

 private:
  Result<ExprId> compile_unique();
  Result<ExprId> in_order(const std::vector<ListedValue>& values);
  Result<ExprId> that_contains();
  Result<std::optional<std::vector<ListedValue>>> few_values(SchemaId schema);

  SchemaCompiler& compiler_;
  SchemaDocument& document_;
  const SchemaPart& part_;
  GrammarRules& rules_;
  JsonWriter& writer_;
};

// --- ObjectCompiler: compiles the objects that a schema allows to a grammar expression. Up to eleven declared
// properties come in any order, more in the order of their declaration; undeclared names may come between them.

class ObjectCompiler {
 public:
  ObjectCompiler(SchemaCompiler& compiler, const SchemaPart& part);

  // Errors: those of compile_json_schema().
  Result<ExprId> compile();
  // True if objects have only the properties that the schema declares or requires.
  static bool is_closed(const SchemaDocument& document, const SchemaPart& part);

 private:
  struct Property {
    std::string_view name;
    SchemaId schema;
    bool required;
  };
  // The constraints that one schema of propertyNames puts on a name.
  struct NameConstraints {
    SchemaPart part;
    std::unordered_set<std::string_view> listed;  // the strings of the schema's enum
  };
  Status read_property_names();
  Status list_properties();
  Result<SchemaId> schema_of(std::string_view name, const SchemaId* own);
  Result<bool> is_name(const NameConstraints& asked, const std::string& name);
  // Returns `"name": value` pairs for undeclared names.
  Result<ExprId> other_pairs();
  // Returns the undeclared names that match exactly the patterns of a set: bit i of `patterns` is pattern i of
  // patternProperties. nothing() if there are no such names.
  Result<ExprId> other_names(uint32_t patterns);
  Status compile_patterns();
  Result<std::vector<uint32_t>> pattern_sets();
  GrammarRules declared_names() const;
  ExprId in_order(ExprId others);
  ExprId in_any_order(ExprId others);
  ExprId pair_of(const Property& property);
  Status at_place(const Status& status) const;
  struct Counter;

  SchemaCompiler& compiler_;
  SchemaDocument& document_;
  const SchemaPart& part_;
  GrammarRules& rules_;
  JsonWriter& writer_;
  std::vector<NameConstraints> name_constraints_;
  std::vector<std::string_view> names_;    // declared names, then names that are required but not declared
  std::vector<Property> properties_;       // the properties of names_ that an object may have, with their schemas
  std::vector<RegularLanguage> patterns_;  // [i]: the names that match pattern i of patternProperties
  bool patterns_overlap_ = false;          // true if some name matches two patterns of patternProperties
  std::optional<RegularLanguage> any_name_, declared_;
};

}  // namespace ibid
