// Items of the Responses API (OpenAI) as the messages that templates know, answers as items, and lists of items as
// clients page through them. Pure functions but respond_items(); readers throw Fault.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "server/http/exchange.h"
#include "server/protocol/fault.h"
#include "server/service/request.h"

namespace ibid::serve {

// Appends the messages of an "input": a text, or a list of items: messages, calls of functions and their outputs,
// reasoning. Reasoning, text and calls that follow each other are one message of the assistant, as they were one
// answer. Faults name the place: "[3].type".
void read_input(const Json& input, Json& messages);

// The same input as the items that are kept: each with its type, its status and an id, contents as lists of parts.
// new_id: as of Site. REQUIRES: read_input() took it.
Json stored_items(const Json& input, const std::function<std::string(std::string_view prefix)>& new_id);

// Items of a response. status: "in_progress", "completed", "incomplete".
Json reasoning_item(const std::string& id, const std::string& text, const char* status);
Json message_item(const std::string& id, Json content, const char* status);
Json reasoning_text(const std::string& text);
Json output_text(const std::string& text, Json logprobs);
Json call_item(const std::string& id, const ToolCall& call, const char* status);

// Answers with a page of `items`, which stand in their order and have ids: {"object": "list", "data", "first_id",
// "last_id", "has_more"}. The query of the request says which: limit (1 to 100, 20 where it is absent), order ("desc",
// the newest first, where it is absent, or "asc"), after (the id of an item: those that follow it in that order).
void respond_items(http::Exchange& exchange, Json items);

}  // namespace ibid::serve
