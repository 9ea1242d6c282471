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

// A form, or a required call, begins with the answer's first token, or after its reasoning where the model thinks
// first. Where the model may choose to call a tool, a call may replace the form. nullptr: the answer is unconstrained.
// The engine caches the last constraints, keyed by the parts of a request that they depend on. Errors:
// kInvalidArgument, kUnsupported, kLimitExceeded: those of grammar/grammar.h, naming the unsupported part, and the tool
// in whose schema it is; kUnsupported also for a form together with a required call, and for a required call of a model
// whose template shows it no tools.
Result<std::shared_ptr<const TokenConstraint>> constraint_for(const std::shared_ptr<Engine>& engine,
                                                              const AnswerRequest& request);

// --- calls (call_form.cc)

// How strictly a call follows its tool's schema.
enum class Arguments {
  kBySchema,    // exactly; a schema that no grammar can express is an error
  kAsToolsSay,  // exactly for tools that say `strict`; for others as far as a grammar can express it
};

// A tool that may be called.
struct CallableTool {
  std::string name;
  Json schema;          // of its arguments
  bool strict = false;  // as the tool says
};
// All that have a name; or the one of that name.
std::vector<CallableTool> callable_tools(const Json& tools, const std::string& only = {});

// One call of one of the tools. Errors: those of the schemas, with the tool's name; kUnsupported for a syntax that has
// no grammar.
Result<RequiredCalls::Call> call_of(const CallSyntax& syntax, const std::vector<CallableTool>& tools,
                                    Arguments arguments, CompileBudget& budget);

// The words with which calls begin in a text, and how the text continues: with one call, or with all of a section. one:
// null: none of the words may occur. Where a syntax has no words of its own but begins as JSON does, an answer that
// begins as its calls do is a call.
std::vector<CallsInText::Begin> begins_of_calls(const CallSyntax& syntax, const RequiredCalls::Call* one, bool several);

}  // namespace ibid::serve
