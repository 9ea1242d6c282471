// Items of the Responses API (OpenAI) as the messages that templates know, and answers as items. Pure functions.
#pragma once

#include <string>

#include "apps/serve/protocol/fault.h"
#include "apps/serve/service/answer_request.h"

namespace ibid::serve {

// "input": a text, or a list of items: messages, calls of functions and their outputs, reasoning. Reasoning, text and
// calls that follow each other are one message of the assistant, as they were one answer. Faults name the place:
// "[3].type".
MaybeFault read_input(const Json& input, Json& messages);

// Items of a response. status: "in_progress", "completed".
Json reasoning_item(const std::string& id, const std::string& text, const char* status);
Json message_item(const std::string& id, Json content, const char* status);
Json output_text(const std::string& text, Json logprobs);
Json call_item(const std::string& id, const ToolCall& call, const char* status);

}  // namespace ibid::serve
