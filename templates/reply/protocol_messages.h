// The messages of OpenAI's protocol and those that chat templates read: the one home of what differs. In the protocol
// the arguments of a call are a text; most templates want the object that the text says, and a few the text. Content
// may be null beside calls; templates want a text. Reasoning has one name there, and another in each template.
//
// What comes back as it was sent renders to the bytes that it was read from, wherever the template writes arguments as
// the model did: keys keep their order, and numbers their value. Pure functions. Any JSON has an answer.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "base/json_limits.h"
#include "templates/reply/reply_format.h"
#include "templates/reply/reply_parser.h"

namespace ibid {

// `message` as the template wants it. JSON that already is, or is no message, stays as it is.
Json message_for_template(Json message, const ReplyFormat& format);
// All of them; and a tool's result gets the name of the tool, where the call that it answers says it.
Json messages_for_template(Json messages, const ReplyFormat& format);

// An answer as a message of the protocol: {"role": "assistant", "content": text or null, "reasoning_content"?,
// "tool_calls"?: [{"id", "type": "function", "function": {"name", "arguments": text}}]}.
Json protocol_message(const ParsedReply& reply);

// Ids for calls that the model gave none: nine letters and digits, which every template takes. The same seed gives the
// same ids.
void give_call_ids(ParsedReply& reply, uint64_t seed);

// --- OfferedTools: the names of the tools that a model was offered, and the types of their parameters. A value; it
// owns copies. Not thread-safe while it is made, immutable then.

// The types that a JSON schema allows a value to have. Nothing set: the schema does not say.
struct AllowedTypes {
  bool string = false, null = false, other = false;
  bool any() const { return string || null || other; }
};
// Reads "type", "enum", "const", "$ref" within `root`, "anyOf", "oneOf" and "allOf". Other keywords
// say nothing.
AllowedTypes allowed_types(const Json& schema, const Json& root);

// The name of a tool: of {"type": "function", "function": {"name": ...}} or of {"name": ...}. Empty: it has none.
std::string_view tool_name(const Json& tool);

class OfferedTools {
 public:
  OfferedTools() = default;
  // `tools`: an array of tools. Tools without a name are left out.
  explicit OfferedTools(const Json& tools);

  bool empty() const { return parameters_.empty(); }
  bool has(std::string_view name) const { return parameters_.find(name) != parameters_.end(); }
  // The types of an argument by the schema of the tool.
  AllowedTypes types_of(std::string_view tool, std::string_view argument) const;

 private:
  std::map<std::string, std::map<std::string, AllowedTypes, std::less<>>, std::less<>> parameters_;
};

}  // namespace ibid
