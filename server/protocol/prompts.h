// Prompts that are not conversations: a text that the model continues, or its tokens. Used by OpenAI's completions,
// llama.cpp's /completion and Ollama's raw /api/generate. The read functions throw Fault, with a param relative to the
// field.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/exchange.h"
#include "server/protocol/fault.h"
#include "server/service/backend.h"
#include "server/service/request.h"

namespace ibid::serve {

struct Site;

inline constexpr size_t kMaxPromptIds = 4u << 20;
inline constexpr size_t kMaxPrompts = 128;  // maximum number of prompts in a request

// Maximum size of a body whose text is only tokenized or rendered. It is larger than a prompt that fills any context.
inline constexpr size_t kMaxTextBodyBytes = 8u << 20;
// Fault 413 if the body is larger than kMaxTextBodyBytes. Call before parsing the body.
void check_text_body(const http::Request& request);

// Returns a callback that responds with the number of tokens of a prompt: {"object", "input_tokens"}.
Backend::Then<Tokens> respond_input_tokens(const http::ExchangePtr& exchange);

// A prompt is a text, a list of tokens, a list of texts and tokens, or llama.cpp's {"prompt_string": text} or
// {"content": [{"type": "text", "text": text}]}. Reads one prompt, or a list of at most `most` prompts. A list that has
// only texts is a list of prompts.
void read_prompts(const Json& value, std::vector<Prompt>& prompts, size_t most = kMaxPrompts);

// Returns the text of a prompt (of an Infill: its prefix). If `tokenizer` is nullptr, tokens have no text.
std::string text_of_prompt(const Prompt& prompt, const Tokenizer* tokenizer);
// Makes an Infill without files. Fault if the prompt is not a text.
Infill infill_of(Prompt prefix, const std::string& suffix);

// Reads a list of tokens, each from 0 to 2147483647.
void read_token_ids(const Json& list, Tokens& ids);

// Starts one request of the service for each prompt. `reply` receives answer i of prompt p as answer p * n_answers + i;
// progress of the prefill only if there is one prompt. It gets one call at a time: begin() from the first prompt that
// begins, end() after the last prompt has ended. An error of one prompt cancels the others and becomes the result.
// gone: requested when the client has left.
void start_prompts(Backend& backend, const AnswerRequest& request, std::vector<Prompt> prompts,
                   std::shared_ptr<AnswerListener> reply, std::stop_token gone);

// Encodes the prompts of the requests, and passes to `respond` a list with {"request_id", "model", "token_ids"} for
// each. An error of one prompt is the response instead, and cancels the others. id_prefix: of request_id.
void start_rendering(const Site& site, const http::ExchangePtr& exchange, std::string_view id_prefix,
                     std::vector<AnswerRequest> requests, std::function<void(Json rendered)> respond);

inline constexpr std::string_view kPromptsSchema =
    R"({"anyOf":[{"type":"string","minLength":1},{"type":"array","minItems":1,"items":{"type":"integer","minimum":0,)"
    R"("maximum":2147483647}},{"type":"array","minItems":1,"maxItems":128,"items":{"type":"string","minLength":1}},)"
    R"({"type":"array","minItems":1,"maxItems":128,"items":{"type":"array","minItems":1,"items":{"type":"integer",)"
    R"("minimum":0,"maximum":2147483647}}},{"type":"object","required":["prompt_string"],"properties":)"
    R"({"prompt_string":{"type":"string","minLength":1},"multimodal_data":{"type":"array","maxItems":0}}}]})";

}  // namespace ibid::serve
