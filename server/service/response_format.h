// The format of an answer (ResponseFormat, ToolChoice) as a constraint that its tokens are sampled under; and calls of
// tools in the syntax of a model (CallSyntax), of which grammars of answers are made. Pure functions, but for the
// engine's cache of constraints.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "grammar/compile_budget.h"
#include "grammar/grammar.h"
#include "ibid/constraint.h"
#include "runtime/engine/engine_state.h"
#include "server/service/request.h"
#include "templates/reply/reply_format.h"

namespace ibid::serve {

// The constraint of a request's answers; nullptr: unconstrained. The form, or a required call, begins with the answer's
// first token, or after the reasoning if the model thinks first. If the model may choose to call a tool, a call may
// replace the form. The engine caches the most recent constraints, keyed by the parts of a request that they depend on.
// Errors: kInvalidArgument, kUnsupported, kLimitExceeded: those of grammar/grammar.h, naming the unsupported part and
// the tool in whose schema it is; kUnsupported also for a form together with a required call, and for a required call
// if the model's template shows it no tools.
Result<std::shared_ptr<const TokenConstraint>> constraint_for(const std::shared_ptr<Engine>& engine,
                                                              const AnswerRequest& request);

// --- calls (call_form.cc)

// How strictly the arguments of a call follow its tool's schema.
enum class Arguments {
  kBySchema,    // exactly; a schema that no grammar can express is an error
  kAsToolsSay,  // exactly for tools with `strict`; for others as far as a grammar can express it
};

// A tool that may be called.
struct CallableTool {
  std::string name;
  Json schema;          // of its arguments
  bool strict = false;  // of the tool's definition
};
// All tools that have a name; if `only` is set, the one of that name.
std::vector<CallableTool> callable_tools(const Json& tools, const std::string& only = {});

// One call of one of the tools. Errors: those of the schemas, with the tool's name; kUnsupported for a syntax that has
// no grammar.
Result<RequiredCalls::Call> call_of(const CallSyntax& syntax, const std::vector<CallableTool>& tools,
                                    Arguments arguments, CompileBudget& budget);

// The texts that begin a call within an answer, and the grammar of what follows each: one call, or a whole section of
// calls if `several`. one: a call; null: none of the texts may occur. If the calls of a syntax begin as JSON does,
// without a marker, an answer that begins so is a call.
std::vector<CallsInText::Begin> begins_of_calls(const CallSyntax& syntax, const RequiredCalls::Call* one, bool several);

}  // namespace ibid::serve
