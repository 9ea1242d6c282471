// Calls that a request demands from a model whose template shows no tools. The prompt then describes the tools in
// words.
#pragma once

#include "runtime/engine/engine_state.h"
#include "server/service/request.h"

namespace ibid::serve {

// True if the answer must be a call.
bool demands_call(const ToolChoice& choice);

// Describes the tools that may be called in the first system message, or in a new one, if the request demands a call
// and the model's template does not show the tools. Changes nothing if the messages already have the description.
void describe_tools(const Engine& engine, AnswerRequest& request);

}  // namespace ibid::serve
