// The messages of OpenAI's protocol and those that chat templates read: the one home of what differs. In the protocol
// the arguments of a call are a text; most templates want the object that the text says, and a few the text. Content
// may be null beside calls; templates want a text. Reasoning has one name there, and another in each template.
//
// What comes back as it was sent renders to the bytes that it was read from, wherever the template writes arguments as
// the model did: keys keep their order, and numbers their value. Pure functions. Any JSON has an answer.
#pragma once

#include <cstdint>

#include "base/json_fwd.h"
#include "templates/reply/reply_format.h"
#include "templates/reply/reply_parser.h"

namespace ibid {

// `message` as the template wants it. What is already so, or is no message, stays as it is.
Json message_for_template(Json message, const ReplyFormat& format);
// All of them; and a tool's result gets the name of the tool, where the call that it answers says it.
Json messages_for_template(Json messages, const ReplyFormat& format);

// An answer as a message of the protocol: {"role": "assistant", "content": text or null, "reasoning_content"?,
// "tool_calls"?: [{"id", "type": "function", "function": {"name", "arguments": text}}]}.
Json protocol_message(const ParsedReply& reply);

// Ids for calls that the model gave none: nine letters and digits, which every template takes. The same seed gives the
// same ids.
void give_call_ids(ParsedReply& reply, uint64_t seed);

}  // namespace ibid
