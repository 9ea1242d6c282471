// What an answer must be (AnswerForm, ToolChoice), as a constraint that its ids are sampled under.
#pragma once

#include <memory>

#include "base/result.h"
#include "ibid/constraint.h"
#include "runtime/engine/engine.h"
#include "server/service/answer_request.h"

namespace ibid::serve {

// A form, or a call that is demanded, begins with the answer's first token, or behind its reasoning where the model
// thinks first. Where the model may choose to call a tool, it may do that in place of a form. nullptr: the answer may
// be anything. The engine keeps the last constraints, by what of a request they depend on.
// Errors: kInvalidArgument, kUnsupported, kLimitExceeded: those of grammar/grammar.h, naming what is not
// understood, and the tool whose schema has it; kUnsupported also for a form together with a call that is demanded, and
// for such a call of a model whose template tells it of no tools.
Result<std::shared_ptr<const TokenConstraint>> constraint_for(const std::shared_ptr<Engine>& engine,
                                                              const AnswerRequest& request);

}  // namespace ibid::serve
