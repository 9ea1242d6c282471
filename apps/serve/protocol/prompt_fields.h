// A prompt that is no conversation: a text that the model goes on with, or its ids. Completions of OpenAI, llama.cpp's
// /completion and Ollama's raw /api/generate have it.
#pragma once

#include <string>
#include <string_view>

#include "apps/serve/protocol/fault.h"
#include "apps/serve/service/answer_request.h"

namespace ibid::serve {

inline constexpr size_t kMaxPromptIds = 4u << 20;

// Of a body whose text is only encoded or rendered: more than the prompt of any context takes.
inline constexpr size_t kMaxTextBodyBytes = 8u << 20;
// Fault: 413, the body is larger. For in front of its parsing.
MaybeFault check_text_body(const http::Request& request);

// A text, a list of ids, or a list of one of these: a request has one prompt. The fault's param goes on from the field.
MaybeFault read_prompt(const Json& value, AnswerRequest& request);

// A list of ids, each from 0 to 2147483647.
MaybeFault read_token_ids(const Json& list, Tokens& ids);

inline constexpr std::string_view kPromptSchema =
    R"({"oneOf":[{"type":"string","minLength":1},{"type":"array","minItems":1,"items":{"type":"integer","minimum":0,)"
    R"("maximum":2147483647}}]})";

}  // namespace ibid::serve
