// Checks of the texts and messages that a program hands to a session, and questions about messages. Pure functions.
// They recurse once per level of a value. What was parsed has a limit of depth (base/json_limits.h); for what a
// program builds, it answers itself.
#pragma once

#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "base/result.h"

namespace ibid {

// kInvalidArgument, naming `name`, for a text that is not UTF-8.
Status check_text(std::string_view name, std::string_view text);
// kInvalidArgument for what is no object with a role that is a string, or holds a string (a key, too) that is not
// UTF-8.
Status check_message(const Json& message);
// The same of a template's variables, which are any object.
Status check_variables(const Json& variables);

// Whether the message may be an answer whose ids are this text. A stop string leaves more in the message than in ids.
bool is_reply(const Json& message, std::string_view text);

// The text of a system message at the beginning; empty: there is none.
std::string leading_system_text(const Json& messages);

// Whether a template sees no difference: the same types, numbers bit by bit, keys in one order. nlohmann's == takes
// 1 for 1.0, 0.0 for -0.0 and -1 for 2^64 - 1, which are written differently.
bool is_same_json(const Json& a, const Json& b);

}  // namespace ibid
