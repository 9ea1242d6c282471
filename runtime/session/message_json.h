// Converts Message (ibid/chat_session.h) to the JSON of sessions and templates and back, without loss: message_of(
// json_of(m)) is m. Pure functions.
#pragma once

#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"
#include "ibid/chat_session.h"

namespace ibid {

// Returns the object {"role", "content", fields ...}. Errors: kInvalidArgument if fields are not a JSON object, too
// deeply nested, or repeat role or content.
Result<Json> json_of(const Message& message);
// Returns an array of the objects of json_of(). Errors: those of json_of(), with the number of the message.
Result<Json> history_of(const std::vector<Message>& messages);

// Converts the JSON of a message. REQUIRES: an object with a string as role.
Message message_of(const Json& message);

// Parses a template's variables: an object, or an empty text. Errors: kInvalidArgument.
Result<Json> variables_of(std::string_view text);

}  // namespace ibid
