// Converts between messages of OpenAI's protocol and those that chat templates read. In the protocol the arguments of a
// call are a string; most templates expect the object that it encodes, a few the string. Content may be null beside
// calls; templates expect a text. Reasoning has one name in the protocol, and another in each template.
//
// A message that a client returns unchanged renders to the bytes that it was parsed from, if the template writes
// arguments as the model did: keys keep their order, and numbers their value. Pure functions that accept any JSON.
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

// Returns `message` as the template expects it. Anything else than a message of the protocol stays unchanged.
Json message_for_template(Json message, const ReplyFormat& format);
// Converts all messages, and adds the tool's name to each tool result whose id is that of a call in the last message
// with calls before it.
Json messages_for_template(Json messages, const ReplyFormat& format);

// Returns an answer as a message of the protocol: {"role": "assistant", "content": text or null, "reasoning_content"?,
// "tool_calls"?: [{"id", "type": "function", "function": {"name", "arguments": text}}]}.
Json protocol_message(const ParsedReply& reply);

// Sets ids of calls that have none: nine letters and digits, which every template accepts. Deterministic in `seed`.
void assign_call_ids(ParsedReply& reply, uint64_t seed);

// --- OfferedTools: the names of the tools offered to a model, and the schemas of their arguments. Has copies of them.
// Immutable once built; not thread-safe before.

// The types that a JSON schema allows for a value. If no flag is set, the schema does not restrict the type.
struct AllowedTypes {
  bool string = false, null = false, other = false;
  bool boolean = false;  // `other` is set as well
  bool any() const { return string || null || other; }
};
// Evaluates "type", "enum", "const", "$ref" within `root`, "anyOf", "oneOf" and "allOf". Other keywords are ignored.
AllowedTypes allowed_types(const Json& schema, const Json& root);

// Returns the name of a tool, from {"type": "function", "function": {"name": ...}} or {"name": ...}; empty if it has
// none.
std::string_view tool_name(const Json& tool);

class OfferedTools {
 public:
  OfferedTools() = default;
  // `tools`: an array of tools. Tools without a name are ignored.
  explicit OfferedTools(const Json& tools);

  bool empty() const { return tools_.empty(); }
  bool has(std::string_view name) const { return find(name) != nullptr; }
  // Returns the types that the tool's schema allows for an argument.
  AllowedTypes types_of(std::string_view tool, std::string_view argument) const;
  // True if the tool's schema lists the argument, or does not list any arguments.
  bool may_have(std::string_view tool, std::string_view argument) const;
  // Returns the arguments, a JSON object, with texts converted where the schema allows no strings: "3" becomes 3.
  std::string typed(std::string_view tool, std::string arguments) const;
  // Returns an argument as JSON that a model wrote as nested tags (protocol_messages.cc); nullopt if the text has
  // another form.
  std::optional<std::string> nested(std::string_view tool, std::string_view argument, std::string_view text,
                                    const CallSyntax& syntax) const;
  // Returns the arguments. If the only one is an object under a name that the tool does not have ("arguments"), returns
  // that object: models wrap the arguments by mistake.
  std::string unwrapped(std::string_view tool, std::string arguments) const;
  // True if the tool's schema accepts the arguments (templates/reply/schema_check.h).
  bool accepts(std::string_view tool, const Json& arguments) const;

 private:
  struct Tool {
    Json schema;  // schema of the arguments
    std::map<std::string, AllowedTypes, std::less<>> types;
  };
  const Tool* find(std::string_view name) const;

  std::map<std::string, Tool, std::less<>> tools_;
};

}  // namespace ibid
