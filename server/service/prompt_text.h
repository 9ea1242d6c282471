// The prompt of a request as text and as ids, without a session: for those who ask what a prompt is, or how long.
// Pure functions.
#pragma once

#include <cstddef>
#include <memory>

#include "base/json_limits.h"
#include "base/marked_text.h"
#include "base/result.h"
#include "runtime/engine/engine.h"
#include "server/service/answer_request.h"

namespace ibid::serve {

// The template's variables of a request, its tools among them.
Json variables_for(const AnswerRequest& request);

// Errors: kUnsupported: the model has no template; those of ChatTemplate::render(); kInvalidArgument.
Result<MarkedText> prompt_text(const std::shared_ptr<Engine>& engine, const AnswerRequest& request);
Result<size_t> count_prompt_ids(const std::shared_ptr<Engine>& engine, const AnswerRequest& request);

// What its texts take, about, without writing them.
size_t bytes_of_prompt(const AnswerRequest& request);

}  // namespace ibid::serve
