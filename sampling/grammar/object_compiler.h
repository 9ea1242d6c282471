// ObjectCompiler: the objects that a schema allows. Properties stand in the order in which the schema declares them;
// names that it does not declare follow them, in any order.
#pragma once

#include <string>
#include <vector>

#include "sampling/grammar/schema_compiler.h"

namespace ibid {

class ObjectCompiler {
 public:
  ObjectCompiler(SchemaCompiler& compiler, const SchemaPart& part);

  // Errors: as of compile_json_schema().
  Result<ExprId> compile();

 private:
  struct Property {
    std::string name;
    SubSchema schema;
    bool required;
  };
  Status list_properties();
  Result<SubSchema> schema_of(const std::string& name, const SubSchema* own) const;
  // `"name": value` of names that are not declared.
  Result<ExprId> other_pairs();
  // Names that match a pattern, or none of them, and are none of those declared; nothing() where there is none.
  Result<ExprId> other_names(const std::string* pattern);
  Status check_patterns_apart();
  Result<SchemaPart> asked_of_names(const SubSchema& names) const;
  Result<GrammarRules> names_with(const std::string& pattern) const;
  GrammarRules declared_names() const;
  ExprId graph(ExprId others);

  SchemaCompiler& compiler_;
  const SchemaPart& part_;
  GrammarRules& rules_;
  JsonWriter& writer_;
  std::vector<Property> properties_;
};

}  // namespace ibid
