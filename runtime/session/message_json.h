// Messages of ibid/chat_session.h as the JSON of sessions and templates, and back, without loss: message_of(json_of(m))
// is m. Pure functions.
#pragma once

#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"
#include "ibid/chat_session.h"

namespace ibid {

// The object {"role", "content", fields ...}. Errors: kInvalidArgument for fields that are no JSON object, are nested
// too deep, or say the role or the content twice.
Result<Json> json_of(const Message& message);
// An array of them. Errors: as above, with the message's number.
Result<Json> history_of(const std::vector<Message>& messages);

// REQUIRES: an object with a role that is a string.
Message message_of(const Json& message);

// A template's variables: an object, or nothing. Errors: kInvalidArgument.
Result<Json> variables_of(std::string_view text);

}  // namespace ibid
