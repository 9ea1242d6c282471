// SchemaCompiler: writes the rules of a JSON Schema. Each sub-schema is one rule, found again by its text, so that
// references may go round in circles. Not thread-safe.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <utility>

#include "base/result.h"
#include "sampling/grammar/json_writer.h"
#include "sampling/grammar/schema_part.h"

namespace ibid {

class SchemaCompiler {
 public:
  SchemaCompiler(const SchemaDocument& document, GrammarRules& rules, const JsonFormat& format);

  // The first rule becomes that of `sub`. Errors: as of compile_json_schema().
  Status compile(const SubSchema& sub);

 private:
  // A rule of the values of `sub`, which is written later.
  ExprId call(const SubSchema& sub);
  Result<ExprId> values_of(const SubSchema& sub);
  Result<ExprId> values_of(const SchemaPart& part, size_t depth);
  Result<ExprId> chosen(SchemaPart part, size_t depth);
  Result<ExprId> listed(const SchemaPart& part);
  Result<bool> allows(const SchemaPart& part, const Json& value) const;
  Result<ExprId> numbers(const SchemaPart& part);
  Result<ExprId> array(const SchemaPart& part);
  Status spend(size_t n, const std::string& pointer);

  const SchemaDocument& document_;
  GrammarRules& rules_;
  const JsonFormat format_;
  JsonWriter writer_;
  std::map<std::string, RuleId> known_;           // text of a schema -> its rule
  std::deque<std::pair<RuleId, SubSchema>> todo_;
  size_t n_spent_ = 0;                            // bytes of schemas, and branches of choices

  friend class ObjectCompiler;
};

// Strings: sampling/grammar/schema_strings.cc. The expression has quotes around it.
// Errors: kUnsupported and kInvalidArgument for patterns and formats; kLimitExceeded.
Result<ExprId> string_values(const SchemaPart& part, JsonWriter& writer);
// The same, as rules of their own: canonical strings, with or without quotes.
Result<GrammarRules> string_rules(const SchemaPart& part, bool quoted);
// Whether a string is one of them.
Result<bool> string_allowed(const SchemaPart& part, const std::string& value);

// The regular expression of a format; nullptr: it is not known, or not regular.
const char* format_pattern(const std::string& name);

// Whether no value satisfies both schemas, as far as one can tell. Errors: those of reading them.
Result<bool> are_disjoint(const SchemaDocument& document, const SchemaPart& a, const SchemaPart& b, size_t depth = 0);

}  // namespace ibid
