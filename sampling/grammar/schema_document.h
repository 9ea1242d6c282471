// SchemaDocument: a JSON Schema as a whole: what its references refer to, and messages that say where something stands.
// Not thread-safe. The JSON must outlive it.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/json_limits.h"
#include "base/result.h"

namespace ibid {

// A schema, or what several of them were merged to, and where the first stands.
struct SubSchema {
  Json schema = true;
  std::string pointer;  // "#/properties/a"
};
// No value satisfies it.
inline bool is_false(const SubSchema& sub) { return sub.schema.is_boolean() && !sub.schema.get<bool>(); }

class SchemaDocument {
 public:
  // Error: kInvalidArgument for an $anchor that is there twice.
  static Result<SchemaDocument> create(const Json& root);

  const Json& root() const { return *root_; }
  // What "#", "#/a/b" and "#name" refer to. Errors: kUnsupported for other documents, kInvalidArgument.
  Result<SubSchema> resolve(const std::string& reference, const std::string& pointer) const;

 private:
  explicit SchemaDocument(const Json& root) : root_(&root) {}

  const Json* root_;
  std::string id_;  // of the whole, as references may name it
  std::map<std::string, SubSchema> anchors_;
};

// "#/a/b" + "c/d" -> "#/a/b/c~1d".
std::string child_pointer(const std::string& pointer, std::string_view name);

Status schema_error(ErrorCode code, const std::string& pointer, std::string_view keyword, std::string_view what);

}  // namespace ibid
