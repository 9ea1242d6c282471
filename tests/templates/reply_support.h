#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "templates/chat_template.h"
#include "templates/reply/reply_parser.h"
#include "tests/templates/template_support.h"

namespace ibid {

// {"type": "function", "function": {name, parameters: {properties}}}; properties: a JSON object of schemas.
Json tool(const std::string& name, Json properties);
// get_weather(city: string, days: integer, tags: array, ...), add(a, b: number), and now() without parameters.
const Json& weather_tools();
// A call in the form that templates expect.
Json tool_call(const std::string& name, Json arguments, const std::string& id);
Json assistant(const std::string& content, Json calls = Json(), const std::string& reasoning = "");

// An answer as rendered by the template, and the prompt before it.
struct WrittenAnswer {
  std::string prompt, text;
};
// Returns nullopt if the template fails.
std::optional<WrittenAnswer> write_answer(const ChatTemplate& chat_template, const Json& message,
                                          const Json& tools = weather_tools(), Json values = Json::object());

// The events of an answer that arrives in these pieces. Adjacent deltas of the same kind are joined.
struct SplitReply {
  std::vector<TurnEvent> events;
  ParsedReply reply;
};
SplitReply split(const ReplyFormat& format, const ReplyContext& context, const std::vector<std::string>& pieces);
ParsedReply parse_reply(const ReplyFormat& format, const ReplyContext& context, std::string_view text);
std::vector<std::string> cut_everywhere(const std::string& text);
std::vector<std::string> cut_at_random(const std::string& text, Random& random);

// True if both texts are the same JSON value, in any order of keys.
bool same_value(const std::string& a, const Json& b);

}  // namespace ibid
