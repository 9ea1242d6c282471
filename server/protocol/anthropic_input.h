// Requests of Anthropic's Messages API as AnswerRequests. Pure functions.
//
// A message of theirs has blocks. What is a block of a user's message here is a message of its own for templates: each
// tool_result becomes one, and stands in front of the text. The blocks of an assistant's message are one message.
#pragma once

#include <span>

#include "server/protocol/call.h"

namespace ibid::serve {

struct MessagesCall {
  AnswerRequest request;
  bool stream = false;
  Json system = Json();           // as one text
  Json conversation = Json::array();
};

// Of POST /v1/messages. Those of count_tokens are the same, and none of them has to be there but messages.
std::span<const Field<MessagesCall>> messages_fields();

MaybeFault read_messages_call(const Site& site, const http::Request& source, bool counts_only, MessagesCall& call);

}  // namespace ibid::serve
