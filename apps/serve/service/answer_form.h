// What an answer must be (AnswerForm, ToolChoice), as a constraint that its ids are sampled under.
#pragma once

#include <memory>

#include "apps/serve/service/answer_request.h"
#include "base/result.h"
#include "ibid/constraint.h"
#include "runtime/engine/engine.h"

namespace ibid::serve {

// A form, or a call that is demanded, begins with the answer's first token, or behind its reasoning where the model
// thinks first. nullptr: the answer may be anything. Errors: kInvalidArgument, kUnsupported, kLimitExceeded: those of
// sampling/grammar/grammar.h, naming what is not understood; kUnsupported also for a form together with a call that is
// demanded, and for a demanded call where the model's way of writing calls does not have the arguments as JSON.
Result<std::shared_ptr<const TokenConstraint>> constraint_for(const std::shared_ptr<Engine>& engine,
                                                              const AnswerRequest& request);

}  // namespace ibid::serve
