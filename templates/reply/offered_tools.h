// OfferedTools: the names of the tools that a model was offered, and the types of their parameters. A value; it owns
// copies. Not thread-safe while it is made, immutable then.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/json_limits.h"

namespace ibid {

// What a JSON schema allows a value to be. Nothing set: it does not say.
struct AllowedTypes {
  bool string = false, null = false, other = false;
  bool any() const { return string || null || other; }
};
// Reads "type", "enum", "const", "$ref" within `root`, "anyOf", "oneOf" and "allOf". Whatever else stands there says
// nothing.
AllowedTypes allowed_types(const Json& schema, const Json& root);

// The name of a tool: of {"type": "function", "function": {"name": ...}} or of {"name": ...}. Empty: it has none.
std::string_view tool_name(const Json& tool);

class OfferedTools {
 public:
  OfferedTools() = default;
  // `tools`: an array of tools. What has no name is left out.
  explicit OfferedTools(const Json& tools);

  bool empty() const { return parameters_.empty(); }
  bool has(std::string_view name) const { return parameters_.find(name) != parameters_.end(); }
  // What the schema of the tool says about an argument.
  AllowedTypes types_of(std::string_view tool, std::string_view argument) const;

 private:
  std::map<std::string, std::map<std::string, AllowedTypes, std::less<>>, std::less<>> parameters_;
};

}  // namespace ibid
