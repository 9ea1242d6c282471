// Checks of texts and messages that a program passes to a session, and predicates of messages. Pure functions. They
// recurse once per level of a value: parsed values have a depth limit (base/json_limits.h), values that a program
// builds are the program's responsibility.
#pragma once

#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "base/result.h"

namespace ibid {

// kInvalidArgument, naming `name`, if the text is not UTF-8.
Status check_text(std::string_view name, std::string_view text);
// kInvalidArgument unless the message is an object with a string as role, and all its strings and keys are UTF-8.
Status check_message(const Json& message);
// As check_message(), for a template's variables, which may be any object.
Status check_variables(const Json& variables);

// True if the message may be an answer whose tokens have this text. A stop string leaves more text than tokens.
bool is_reply(const Json& message, std::string_view text);

// The text of a leading system message; empty: none.
std::string leading_system_text(const Json& messages);

// True if a template sees no difference: same types, numbers bit by bit, keys in the same order. nlohmann's == equates
// 1 and 1.0, 0.0 and -0.0, -1 and 2^64 - 1, which are rendered differently.
bool is_same_json(const Json& a, const Json& b);

}  // namespace ibid
