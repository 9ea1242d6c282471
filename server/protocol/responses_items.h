// Converts items of the Responses API (OpenAI) to messages for templates, and answers to items; also returns lists of
// items page by page. Pure functions except respond_items(). Functions that read requests throw Fault.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "server/http/exchange.h"
#include "server/protocol/fault.h"
#include "server/service/request.h"

namespace ibid::serve {

// Appends the messages of an "input": a text, or a list of items: messages, calls and their outputs, reasoning.
// Consecutive reasoning, text and calls become one assistant message, as they were one answer; so do a message and one
// that continues it (continuing_item()). Calls of the client's other tools (custom_tool_call, local_shell_call ...)
// become calls of functions; items of the provider's own tools and of unknown types are left out, and reported under
// "input". The first n_before items are of earlier requests: nothing of them is reported. The param of a fault:
// "[3].type".
void read_input(const Json& input, Json& messages, IgnoredParts& ignored, size_t n_before = 0);

// Converts an input that read_input() has accepted to items that can be stored: each has its type, status and id, and
// contents are lists of parts. new_id: Site::new_id.
Json stored_items(const Json& input, const std::function<std::string(std::string_view prefix)>& new_id);

// Make items of a response. status: "in_progress", "completed", "incomplete".
Json reasoning_item(const std::string& id, const std::string& text, const char* status);
Json message_item(const std::string& id, Json content, const char* status);
// Marks a message as one that continues the message before it.
Json continuing_item(Json message);
Json reasoning_text(const std::string& text);
Json output_text(const std::string& text, Json logprobs);
Json call_item(const std::string& id, const ToolCall& call, const char* status);

// Responds with a page of `items`, which have ids and are in chronological order: {"object": "list", "data",
// "first_id", "last_id", "has_more"}. Query parameters: limit (1 to 100, default 20); order ("asc", or "desc", the
// default: newest first); after (an item's id: the page begins after that item, in this order).
void respond_items(http::Exchange& exchange, Json items);

}  // namespace ibid::serve
