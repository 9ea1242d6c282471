// What an answer must be (AnswerForm, ToolChoice), as a constraint that its ids are sampled under.
#pragma once

#include <memory>

#include "apps/serve/service/answer_request.h"
#include "base/result.h"
#include "ibid/constraint.h"
#include "runtime/engine/engine.h"

namespace ibid::serve {

// nullptr: the answer may be anything. Errors: kInvalidArgument, kUnsupported, kLimitExceeded: those of
// sampling/grammar/grammar.h, naming what is not understood; kUnsupported also for a form together with a call that is
// demanded, and for a demanded call where the model's way of writing calls is not one JSON object between two words.
Result<std::shared_ptr<const TokenConstraint>> constraint_for(const std::shared_ptr<Engine>& engine,
                                                              const AnswerRequest& request);

}  // namespace ibid::serve
