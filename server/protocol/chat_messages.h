// Converts messages of chat completions (OpenAI) to the form that templates read, as AnswerRequest has them. The
// differences are small: "developer" becomes the system role, text parts become one text, and fields unknown to
// templates are dropped. Other protocols use the same functions for their messages. Pure functions, which throw Fault.
#pragma once

#include <string>
#include <string_view>

#include "base/json_limits.h"
#include "server/protocol/fault.h"
#include "server/service/request.h"

namespace ibid::serve {

inline constexpr size_t kMaxMessages = 65536;

// Appends the messages of `list`, any JSON, to `messages`. The param of a fault is the path in the list:
// "[3].content[0].type".
void read_chat_messages(const Json& list, Json& messages);
// Appends one message.
void read_chat_message(const Json& message, Json& messages);

// Returns the text of a content: a text, or a list of parts {"type": "text", "text"} (also "input_text",
// "output_text"), joined by line breaks. Images, audio, videos and files are refused with a message that names them. A
// fault's param is relative to the content.
std::string read_content(const Json& content);

// Returns {"id", "type": "function", "function": {"name", "arguments": a text}}.
Json tool_call_json(std::string_view id, std::string_view name, std::string_view arguments);
// Returns {"role": "tool", "tool_call_id", "content"}.
Json tool_message(std::string_view call_id, std::string content);

// Fault if there are no messages, or if the last one is the assistant's, to which a model does not answer.
void check_awaits_answer(const Json& messages);

// Sets request.continues if the last message is the assistant's. Removes that message if it is empty. Otherwise calls
// check_awaits_answer(). Fault if the message has tool calls: the results of the tools are missing.
void read_ending(AnswerRequest& request);

// JSON schema of a message, #/components/schemas/chat_message in the OpenAPI description.
inline constexpr std::string_view kChatMessageSchema =
    R"({"type":"object","required":["role"],"properties":{"role":{"enum":["system","developer","user","assistant",)"
    R"("tool"]},"content":{"oneOf":[{"type":"string"},{"type":"array","items":{"type":"object","required":["type",)"
    R"("text"],"properties":{"type":{"const":"text"},"text":{"type":"string"}}}},{"type":"null"}]},)"
    R"("name":{"type":"string"},"reasoning_content":{"type":"string"},"tool_call_id":{"type":"string"},)"
    R"("tool_calls":{"type":"array","items":{"type":"object","required":["function"],"properties":{"id":)"
    R"({"type":"string"},"type":{"const":"function"},"function":{"type":"object","required":["name","arguments"],)"
    R"("properties":{"name":{"type":"string","minLength":1,"maxLength":64},"arguments":{"type":"string"}}}}}}},)"
    R"("anyOf":[{"required":["content"],"properties":{"content":{"type":["string","array"]}}},)"
    R"({"required":["tool_calls"],"properties":{"role":{"const":"assistant"},"tool_calls":{"type":"array",)"
    R"("minItems":1}}}]})";

}  // namespace ibid::serve
