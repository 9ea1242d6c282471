// Several prompts in one request: each is a request of its own to the service, and all are answered by one reply.
#pragma once

#include <memory>
#include <stop_token>
#include <vector>

#include "server/protocol/prompt_fields.h"
#include "server/service/backend.h"

namespace ibid::serve {

// Starts `request` with each of the prompts. Answer i of prompt p is answer p * request.n + i of the reply, which hears
// one call at a time, begins with the first prompt, and ends with the last one. An error of one prompt ends the others,
// and is what the reply hears. `gone`: the client.
void start_prompts(Backend& backend, AnswerRequest request, std::vector<Prompt> prompts,
                   std::shared_ptr<AnswerListener> reply, std::stop_token gone);

}  // namespace ibid::serve
