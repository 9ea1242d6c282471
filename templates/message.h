// One message of a conversation, as chat templates expect it: a JSON object with a role, and usually a text as its
// content. Only this file uses the names of the keys and roles.
//
// A message stays JSON, because a template may read any field of it (tool_calls, name, parts of content). JSON from
// outside may be anything, so every function accepts any JSON value. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/json_members.h"
#include "base/result.h"

namespace ibid {

enum class Role { kSystem, kUser, kAssistant, kTool };

constexpr std::string_view role_name(Role role) {
  constexpr std::string_view kNames[] = {"system", "user", "assistant", "tool"};
  return kNames[static_cast<size_t>(role)];
}

inline bool has_role(const Json& message) noexcept { return text_member(message, "role") != nullptr; }
// Returns the role of a message, even an unknown one ("developer"); empty if the message has no role.
inline std::string_view role_of(const Json& message) noexcept {
  const std::string* role = text_member(message, "role");
  return role == nullptr ? std::string_view() : *role;
}
inline bool is_from(const Json& message, Role role) noexcept { return role_of(message) == role_name(role); }

// Returns the content of a message if it is one text, else nullptr.
inline const std::string* content_of(const Json& message) noexcept { return text_member(message, "content"); }

// Returns the content of a message, of any type; nullptr if the message has none.
inline const Json* content_value(const Json& message) noexcept { return find_member(message, "content"); }

// Keys under which clients and templates store the reasoning of an answer, the usual key first. transformers accepts
// each of these keys in place of the others.
inline constexpr std::string_view kReasoningKeys[] = {"reasoning_content", "reasoning", "thinking"};

// Returns the reasoning of an answer under any of its keys; nullptr if the answer has no reasoning.
inline const std::string* reasoning_of(const Json& message) noexcept {
  for (const std::string_view key : kReasoningKeys) {
    const std::string* text = text_member(message, key);
    if (text != nullptr && !text->empty()) return text;
  }
  return nullptr;
}

// REQUIRES: content_of(message) != nullptr, or the message has no content yet.
inline void set_content(Json& message, std::string text) { message["content"] = std::move(text); }

// Returns {"role": role, "content": text}. Does not build the object from a braced list, which would leak its elements
// if an allocation failed.
inline Json make_message(Role role, std::string text) {
  Json message = Json::object();
  message["role"] = std::string(role_name(role));
  set_content(message, std::move(text));
  return message;
}

// As make_message(), with a list of parts as content: [{"type": "text", "text": ...}, ...].
inline Json make_message_of_parts(Role role, Json parts) {
  Json message = make_message(role, "");
  message["content"] = std::move(parts);
  return message;
}

// --- Checks of texts and messages from outside. They recurse once per level of a value: parsed values have a depth
// limit (base/json_limits.h), values that a program builds are the program's responsibility.

// kInvalidArgument, naming `name`, if the text is not UTF-8.
Status check_text(std::string_view name, std::string_view text);
// kInvalidArgument unless the message is an object with a string as role, and all its strings and keys are UTF-8.
Status check_message(const Json& message);
// As check_message(), for a template's variables, which may be any object.
Status check_variables(const Json& variables);

// True if the message may be an answer whose tokens have this text. The content only has to begin with `text`, because
// an answer that a stop string ended may have more text in the message than in its tokens.
bool is_reply(const Json& message, std::string_view text);

// Returns the text of the first message if it is a system message; else an empty text.
std::string leading_system_text(const Json& messages);

// True if a template sees no difference between the values: same types, numbers bit by bit, keys in the same order.
// nlohmann's == does not suffice: for it 1 equals 1.0, 0.0 equals -0.0, and -1 equals 2^64 - 1.
bool is_same_json(const Json& a, const Json& b);

}  // namespace ibid
