// POST /v1/completions (OpenAI's completions): a text that the model goes on with.
//
// As the chat completions it streams; log-probabilities come with the last chunk of a choice.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "server/protocol/call.h"
#include "server/protocol/prompt_fields.h"
#include "server/protocol/site.h"

namespace ibid::serve {

struct CompletionCall {
  AnswerRequest request;
  std::vector<Prompt> prompts = {};           // each with request.n answers
  bool stream = false;
  bool include_usage = false;
  bool echo = false;                          // the prompt in front of the answer
};

std::span<const Field<CompletionCall>> completion_fields();

void post_completions(const Site& site, const http::ExchangePtr& exchange);

}  // namespace ibid::serve
