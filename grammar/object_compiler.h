// ObjectCompiler: the objects that a schema allows. Properties stand in the order in which the schema declares them;
// names that it does not declare follow them, in any order.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "grammar/regular_product.h"
#include "grammar/schema_compiler.h"

namespace ibid {

class ObjectCompiler {
 public:
  ObjectCompiler(SchemaCompiler& compiler, const SchemaPart& part);

  // Errors: as of compile_json_schema().
  Result<ExprId> compile();

 private:
  struct Property {
    std::string_view name;
    SchemaId schema;
    bool required;
  };
  // What a schema of propertyNames asks.
  struct AskedOfNames {
    SchemaPart part;
    std::unordered_set<std::string_view> listed;  // the strings of its enum
  };
  Status read_property_names();
  Status list_properties();
  Result<SchemaId> schema_of(std::string_view name, const SchemaId* own);
  Result<bool> is_name(const AskedOfNames& asked, const std::string& name);
  // `"name": value` of names that are not declared.
  Result<ExprId> other_pairs();
  // Names that match a pattern, or none of them (no pattern), and are none of those declared; nothing() where there is
  // none.
  Result<ExprId> other_names(std::optional<size_t> pattern);
  Status compile_patterns();
  Status check_patterns_apart();
  GrammarRules declared_names() const;
  ExprId graph(ExprId others);
  Status at_place(const Status& status) const;

  SchemaCompiler& compiler_;
  SchemaDocument& document_;
  const SchemaPart& part_;
  GrammarRules& rules_;
  JsonWriter& writer_;
  std::vector<AskedOfNames> asked_of_names_;
  std::vector<std::string_view> names_;        // declared, then those that are only required
  std::vector<Property> properties_;           // of these, those that may be there
  std::vector<RegularLanguage> patterns_;      // names that match
  std::optional<RegularLanguage> any_name_, declared_;
};

}  // namespace ibid
