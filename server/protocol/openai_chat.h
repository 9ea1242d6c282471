// POST /v1/chat/completions (OpenAI's chat completions, with what llama.cpp and vLLM have beside it).
//
// Source: the OpenAPI description of OpenAI's API; llama.cpp tools/server/README.md for timings, prompt_progress,
// reasoning_content and the forms of answers.
#pragma once

#include <memory>
#include <optional>

#include "server/protocol/call.h"
#include "server/service/request.h"

namespace ibid::serve {

struct ChatCall {
  AnswerRequest request;
  bool stream = false;
  bool include_usage = false;    // one more chunk, with the usage
  bool return_progress = false;  // chunks while the prompt is read
  bool logprobs = false;
  std::optional<size_t> top_logprobs = {};
};

// Throws Fault.
ChatCall read_chat(const Site& site, const http::Request& source);
// The same with a body that has been parsed.
ChatCall read_chat_body(const Site& site, const http::Request& source, const Json& body);

// Makes the listener that writes the answer to the exchange: whole, or as chunks.
std::shared_ptr<AnswerListener> make_chat_listener(const Site& site, const http::ExchangePtr& exchange,
                                                   const ChatCall& call);

}  // namespace ibid::serve
