#include "templates/reply/offered_tools.h"

#include <utility>

namespace ibid {
namespace {

// Schemas within schemas are looked into so deep, and so many of them: a request may hold any schema.
constexpr size_t kMaxSchemaDepth = 8;
constexpr size_t kMaxSchemas = 1000;

const Json* object_member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

void add(AllowedTypes& types, std::string_view name) {
  types.string |= name == "string";
  types.null |= name == "null";
  types.other |= name != "string" && name != "null";
}

void add_type_of(AllowedTypes& types, const Json& value) {
  add(types, value.is_string() ? "string" : value.is_null() ? "null" : "other");
}

// What "#/a/b" refers to; nullptr: something that is not there, or in another document.
const Json* referred(const Json& root, std::string_view reference) {
  if (!reference.starts_with('#')) return nullptr;
  const Json* at = &root;
  for (std::string_view rest = reference.substr(1); at != nullptr && !rest.empty();) {
    if (rest.front() != '/') return nullptr;
    const std::string_view part = rest.substr(1, rest.find('/', 1) - 1);
    rest.remove_prefix(1 + part.size());
    std::string key;
    for (size_t i = 0; i < part.size(); ++i) {  // RFC 6901
      const bool escaped = part[i] == '~' && i + 1 < part.size();
      key += !escaped ? part[i] : part[++i] == '0' ? '~' : '/';
    }
    at = object_member(*at, key.c_str());
  }
  return at;
}

// n_left: of the schemas that may still be looked into.
AllowedTypes allowed_types_within(const Json& schema, const Json& root, size_t depth, size_t& n_left) {
  AllowedTypes types;
  if (depth == 0 || n_left == 0) return types;
  --n_left;
  if (const Json* type = object_member(schema, "type")) {
    if (type->is_string()) add(types, type->get_ref<const std::string&>());
    if (type->is_array()) {
      for (const Json& one : *type) {
        if (one.is_string()) add(types, one.get_ref<const std::string&>());
      }
    }
    if (types.any()) return types;
  }
  if (const Json* value = object_member(schema, "const")) add_type_of(types, *value);
  const Json* values = object_member(schema, "enum");
  if (values != nullptr && values->is_array()) {
    for (const Json& value : *values) add_type_of(types, value);
  }
  if (types.any()) return types;
  if (const Json* reference = object_member(schema, "$ref"); reference != nullptr && reference->is_string()) {
    const Json* found = referred(root, reference->get_ref<const std::string&>());
    if (found != nullptr) return allowed_types_within(*found, root, depth - 1, n_left);
  }
  for (const char* key : {"anyOf", "oneOf", "allOf"}) {
    const Json* schemas = object_member(schema, key);
    if (schemas == nullptr || !schemas->is_array()) continue;
    for (const Json& one : *schemas) {
      const AllowedTypes more = allowed_types_within(one, root, depth - 1, n_left);
      types.string |= more.string;
      types.null |= more.null;
      types.other |= more.other;
    }
  }
  return types;
}

}  // namespace

AllowedTypes allowed_types(const Json& schema, const Json& root) {
  size_t n_left = kMaxSchemas;
  return allowed_types_within(schema, root, kMaxSchemaDepth, n_left);
}

std::string_view tool_name(const Json& tool) {
  const Json* function = object_member(tool, "function");
  const Json* name = object_member(function != nullptr ? *function : tool, "name");
  return name != nullptr && name->is_string() ? std::string_view(name->get_ref<const std::string&>())
                                              : std::string_view();
}

OfferedTools::OfferedTools(const Json& tools) {
  if (!tools.is_array()) return;
  for (const Json& tool : tools) {
    const std::string_view name = tool_name(tool);
    if (name.empty()) continue;
    auto& parameters = parameters_[std::string(name)];
    const Json* function = object_member(tool, "function");
    const Json* schema = object_member(function != nullptr ? *function : tool, "parameters");
    const Json* properties = schema == nullptr ? nullptr : object_member(*schema, "properties");
    if (properties == nullptr || !properties->is_object()) continue;
    for (const auto& [key, property] : properties->items()) parameters[key] = allowed_types(property, *schema);
  }
}

AllowedTypes OfferedTools::types_of(std::string_view tool, std::string_view argument) const {
  const auto parameters = parameters_.find(tool);
  if (parameters == parameters_.end()) return {};
  const auto found = parameters->second.find(argument);
  return found == parameters->second.end() ? AllowedTypes() : found->second;
}

}  // namespace ibid
