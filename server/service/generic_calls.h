// Calls that a request demands of a model whose template shows no tools: the prompt describes the tools in words.
#pragma once

#include "runtime/engine/engine_state.h"
#include "server/service/request.h"

namespace ibid::serve {

// True if the answer must be a call.
bool demands_call(const ToolChoice& choice);

// Adds a description of the tools that may be called to the first system message, or adds such a message, if the
// request demands a call and the model's template does not show the tools. Changes nothing if the messages already have
// the description.
void describe_tools(const Engine& engine, AnswerRequest& request);

}  // namespace ibid::serve
