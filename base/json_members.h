// Looks up members of JSON objects. The functions return nullptr if `object` is not an object or has no such member.
// Pure functions; they allocate nothing, and take linear time.
#pragma once

#include <string>
#include <string_view>

#include "base/json_limits.h"

namespace ibid {

// Returns a member; its value may be JSON null.
inline const Json* find_member(const Json& object, std::string_view name) noexcept {
  if (!object.is_object()) return nullptr;
  for (const auto& [key, value] : object.get_ref<const Json::object_t&>()) {
    if (key == name) return &value;
  }
  return nullptr;
}

// Returns a member whose value is not JSON null.
inline const Json* member(const Json& object, std::string_view name) noexcept {
  const Json* found = find_member(object, name);
  return found == nullptr || found->is_null() ? nullptr : found;
}

// Returns the text of a member whose value is a string.
inline const std::string* text_member(const Json& object, std::string_view name) noexcept {
  const Json* found = find_member(object, name);
  return found != nullptr && found->is_string() ? &found->get_ref<const std::string&>() : nullptr;
}

}  // namespace ibid
