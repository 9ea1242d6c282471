// POST /v1/chat/completions (OpenAI's chat completions, with the extensions of llama.cpp and vLLM).
//
// Source: the OpenAPI description of OpenAI's API; llama.cpp tools/server/README.md for timings, prompt_progress,
// reasoning_content and its response formats.
#pragma once

#include <memory>
#include <optional>

#include "server/protocol/call.h"
#include "server/service/request.h"

namespace ibid::serve {

// The parts of answers for which a request asks.
struct ChatOutput {
  bool include_usage = false;     // send a last chunk with the usage
  bool continuous_usage = false;  // send the usage so far in each chunk
  bool return_progress = false;   // chunks during prefill
  bool timings = false;           // send the timings so far in each chunk
  bool verbose = false;           // the rendered prompt
  bool logprobs = false;
  bool names_by_id = false;  // log-probabilities name tokens by their ids
  bool token_ids = false;    // return the tokens of prompt and answers
  std::string echoed = {};   // the continued message, which is repeated before the text added to it; empty: no echo
};

struct ChatCall {
  AnswerRequest request;
  bool stream = false;
  ChatOutput output = {};
  std::optional<size_t> top_logprobs = {};
  std::optional<size_t> prompt_logprobs = {};
  bool echo = false;
  // vLLM's fields; unset: an assistant's message at the end is continued.
  std::optional<bool> continue_final_message = {}, add_generation_prompt = {};
};

// Throws Fault.
ChatCall read_chat(const Site& site, const http::Request& source, bool is_answered = true);

// Makes the listener that writes the answer to the exchange, as one response or in chunks.
std::shared_ptr<AnswerListener> make_chat_listener(const Site& site, const http::ExchangePtr& exchange,
                                                   const ChatCall& call);

}  // namespace ibid::serve
