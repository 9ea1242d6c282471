// The prompt of a request as text and as ids, without a session: for those who ask what a prompt is, or how long.
// Pure functions.
#pragma once

#include <cstddef>
#include <memory>

#include "apps/serve/service/answer_request.h"
#include "base/json_limits.h"
#include "base/marked_text.h"
#include "base/result.h"
#include "runtime/engine/engine.h"

namespace ibid::serve {

// The template's variables of a request, its tools among them.
Json variables_for(const AnswerRequest& request);

// Errors: kUnsupported: the model has no template; those of ChatTemplate::render(); kInvalidArgument.
Result<MarkedText> prompt_text(const std::shared_ptr<Engine>& engine, const AnswerRequest& request);
Result<size_t> count_prompt_ids(const std::shared_ptr<Engine>& engine, const AnswerRequest& request);

// What its texts take, about, without writing them.
size_t bytes_of_prompt(const AnswerRequest& request);

// English has four to five bytes an id; code, and other languages in many tokenizers, about three.
inline constexpr size_t kBytesPerId = 3;
// How many ids a prompt of so many bytes is expected to have, before anybody encoded it.
size_t expected_prompt_ids(const AnswerRequest& request, size_t prompt_bytes);

}  // namespace ibid::serve
