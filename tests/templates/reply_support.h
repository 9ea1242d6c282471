// What the tests of answers share: tools, messages with known calls, and what a template writes for them.
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
// A call in the form that templates take.
Json tool_call(const std::string& name, Json arguments, const std::string& id);
Json assistant(const std::string& content, Json calls = Json(), const std::string& reasoning = "");

// An answer as the template writes it, and the prompt in front of it.
struct WrittenAnswer {
  std::string prompt, text;
};
// Nothing: the template refuses the message.
std::optional<WrittenAnswer> write_answer(const ChatTemplate& chat_template, const Json& message,
                                          const Json& tools = weather_tools(), Json values = Json::object());

// The events of an answer that comes in these pieces, deltas of one kind joined.
struct SplitReply {
  std::vector<TurnEvent> events;
  ParsedReply reply;
};
SplitReply split(const ReplyFormat& format, const ReplyContext& context, const std::vector<std::string>& pieces);
// What an answer says that comes in one piece.
ParsedReply parse_reply(const ReplyFormat& format, const ReplyContext& context, std::string_view text);
std::vector<std::string> cut_everywhere(const std::string& text);
std::vector<std::string> cut_at_random(const std::string& text, Random& random);

// Whether two texts are the same JSON value, whatever the order of keys.
bool same_value(const std::string& a, const Json& b);

}  // namespace ibid
