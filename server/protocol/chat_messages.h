// Converts messages of chat completions (OpenAI) to the form that templates read, as AnswerRequest has them. The
// differences are small: "developer" becomes the system role (other roles of templates stay as they are), text parts
// become one text, and fields unknown to templates are dropped. Other protocols use the same functions for their
// messages. Pure functions, which throw Fault.
#pragma once

#include <string>
#include <string_view>

#include "server/protocol/field.h"
#include "server/service/request.h"

namespace ibid::serve {

inline constexpr size_t kMaxMessages = 65536;

// The place in a body that is being read ("messages[1]"), and the list in which left-out parts are reported.
struct ReadPlace {
  std::string path;
  IgnoredParts& ignored;

  ReadPlace at(size_t i) const { return {path + place_in_list(i), ignored}; }
  ReadPlace at(std::string_view key) const { return {path + "." + std::string(key), ignored}; }
  // Reports a part of this type as left out.
  void leave_out(std::string_view type) const;
};

// Appends the messages of `list` to `messages`. The param of a fault: "[3].content[0].type". `list`: any JSON. The
// older role "function" and field "function_call" are converted to "tool" and "tool_calls".
void read_chat_messages(const Json& list, const ReadPlace& place, Json& messages);
// Appends one message.
void read_chat_message(const Json& message, const ReadPlace& place, Json& messages);

// Returns the text of a content: a text, or a list of parts {"type": "text", "text"} (also "input_text",
// "output_text"), or documents of text, joined by line breaks. Images, audio, videos and files are refused with a
// message that names them; parts of other types are left out. A fault's param is relative to the content.
std::string read_content(const Json& content, const ReadPlace& place);
// Returns the text, or list of parts, of Anthropic's plain text document or search result; nullptr if the part is
// neither.
const Json* text_of_document(const Json& part);
// Throws a Fault if `type` is that of an image, audio, a video or a file.
void check_is_no_medium(std::string_view type);

// Returns {"id", "type": "function", "function": {"name", "arguments": a text}}.
Json tool_call_json(std::string_view id, std::string_view name, std::string_view arguments);
// The arguments of a call as text: "arguments", unchanged if it is a text, so that a message that a client sends back
// has the same tokens; {"input": ...} for calls of tools with an unstructured "input".
std::string arguments_text(const Json& call);
// Returns {"role": "tool", "tool_call_id", "content"}.
Json tool_message(std::string_view call_id, std::string content);

// Fault if there are no messages, or if the last one is the assistant's, to which a model does not answer.
void check_awaits_answer(const Json& messages);

// If the last message is the assistant's and not empty, sets request.continues. Otherwise removes the last message if
// it is an empty one of the assistant, and calls check_awaits_answer(). Fault if an assistant's last message has tool
// calls: the results of the tools are missing.
void read_ending(AnswerRequest& request);

// JSON schema of a message, #/components/schemas/chat_message in the OpenAPI description.
inline constexpr std::string_view kChatMessageSchema =
    R"({"type":"object","required":["role"],"properties":{"role":{"anyOf":[{"enum":["system","developer","user",)"
    R"("assistant","tool","function"]},{"type":"string","minLength":1,"maxLength":16}]},"content":{"oneOf":[)"
    R"({"type":"string"},{"type":"array","items":{"anyOf":[{"type":"string"},)"
    R"({"type":"object","required":["text"],"properties":{"text":{"type":"string"},"type":{"enum":["text",null]}}},)"
    R"({"type":"object",)"
    R"("required":["type"],"properties":{"type":{"type":"string","not":{"anyOf":[{"enum":["text","input_text",)"
    R"("output_text","document"]},{"pattern":"image|audio|video|file"}]}}}}]}},{"type":"null"}]},)"
    R"("name":{"type":"string"},"reasoning_content":{"type":"string"},"tool_call_id":{"type":"string"},)"
    R"("tool_calls":{"type":"array","items":{"type":"object","properties":{"id":{"type":"string"},"function":)"
    R"({"type":"object","properties":{"name":{"type":"string"},"arguments":{"type":"string"}}}}}}},)"
    R"("anyOf":[{"required":["content"],"properties":{"content":{"type":["string","array"]}}},)"
    R"({"required":["tool_calls"],"properties":{"role":{"const":"assistant"},"tool_calls":{"type":"array",)"
    R"("minItems":1}}}]})";

}  // namespace ibid::serve
