// POST /v1/chat/completions (OpenAI's chat completions, with what llama.cpp and vLLM have beside it).
//
// Source: the OpenAPI description of OpenAI's API; llama.cpp tools/server/README.md for timings, prompt_progress,
// reasoning_content and the forms of answers.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "server/protocol/call.h"
#include "server/protocol/reply.h"
#include "server/protocol/site.h"

namespace ibid::serve {

struct ChatCall {
  AnswerRequest request;
  bool stream = false;
  bool include_usage = false;      // one more chunk, with the usage
  bool return_progress = false;    // chunks while the prompt is read
  bool logprobs = false;
  std::optional<size_t> top_logprobs = {};
};

// The rows that are this endpoint's own; besides them it has sampler_fields() and those of answer_fields.h.
std::span<const Field<ChatCall>> chat_fields();

MaybeFault read_chat(const Site& site, const http::Request& source, ChatCall& call);
// The same with a body that has been parsed.
MaybeFault read_chat_body(const Site& site, const http::Request& source, const Json& body, ChatCall& call);

// What writes the answer to the exchange: whole, or as chunks.
std::shared_ptr<AnswerListener> make_chat_listener(const Site& site, const http::ExchangePtr& exchange,
                                                   const ChatCall& call);

// What tells one completion from another.
struct CompletionNames {
  std::string id;
  int64_t created = 0;
};

void post_chat_completions(const Site& site, const http::ExchangePtr& exchange);

}  // namespace ibid::serve
