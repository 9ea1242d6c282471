// A prompt that is no conversation: a text that the model goes on with, or its ids. Completions of OpenAI, llama.cpp's
// /completion and Ollama's raw /api/generate have it.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "server/protocol/fault.h"
#include "server/service/request.h"

namespace ibid::serve {

using Prompt = std::variant<std::string, Tokens>;

inline constexpr size_t kMaxPromptIds = 4u << 20;
inline constexpr size_t kMaxPrompts = 128;  // of one request

// Of a body whose text is only encoded or rendered: more than the prompt of any context takes.
inline constexpr size_t kMaxTextBodyBytes = 8u << 20;
// Fault: 413, the body is larger. For in front of its parsing.
MaybeFault check_text_body(const http::Request& request);

// A text, a list of ids, or a list of these. The fault's param goes on from the field.
MaybeFault read_prompts(const Json& value, std::vector<Prompt>& prompts);
// The same for a request that has one prompt.
MaybeFault read_prompt(const Json& value, AnswerRequest& request);

// A list of ids, each from 0 to 2147483647.
MaybeFault read_token_ids(const Json& list, Tokens& ids);

inline constexpr std::string_view kPromptSchema =
    R"({"oneOf":[{"type":"string","minLength":1},{"type":"array","minItems":1,"items":{"type":"integer","minimum":0,)"
    R"("maximum":2147483647}}]})";
inline constexpr std::string_view kPromptsSchema =
    R"({"oneOf":[{"type":"string","minLength":1},{"type":"array","minItems":1,"items":{"type":"integer","minimum":0,)"
    R"("maximum":2147483647}},{"type":"array","minItems":1,"maxItems":128,"items":{"type":"string","minLength":1}},)"
    R"({"type":"array","minItems":1,"maxItems":128,"items":{"type":"array","minItems":1,"items":{"type":"integer",)"
    R"("minimum":0,"maximum":2147483647}}}]})";

}  // namespace ibid::serve
