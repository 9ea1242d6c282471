// Converts the format of an answer (ResponseFormat, ToolChoice) to a constraint under which its tokens are sampled, and
// a model's syntax of tool calls (CallSyntax) to grammars. Pure functions, except that the engine caches constraints.
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
// replace the form; a required call replaces it. The engine caches the most recent constraints, keyed by the parts of a
// request that they depend on. Errors: kInvalidArgument, kUnsupported, kLimitExceeded: those of grammar/grammar.h,
// naming the unsupported part and the tool in whose schema it is.
Result<std::shared_ptr<const TokenConstraint>> constraint_for(const std::shared_ptr<Engine>& engine,
                                                              const AnswerRequest& request);

// --- Grammars of calls (call_form.cc).

// How strictly the arguments of a call follow the tool's schema.
enum class Arguments {
  kBySchema,    // exactly; a schema that no grammar can express is an error
  kAsToolsSay,  // exactly for tools with `strict`; for other tools, the part of the schema that a grammar can express
};

// A tool that may be called.
struct CallableTool {
  std::string name;
  std::string description = {};
  Json schema;          // schema of the tool's arguments
  bool strict = false;  // `strict` in the tool's definition
};
// Returns all tools that have a name; if `only` is set, the one with that name.
std::vector<CallableTool> callable_tools(const Json& tools, const std::string& only = {});

// Returns one call, of any of the tools. Errors: those of the schemas, with the tool's name; kUnsupported for a syntax
// that has no grammar.
Result<RequiredCalls::Call> call_of(const CallSyntax& syntax, const std::vector<CallableTool>& tools,
                                    Arguments arguments, CompileBudget& budget);

// Returns the texts that begin a call within an answer, and for each the grammar of the text that follows: one call, or
// a whole section of calls if `several`. one: a call; null: none of these texts may occur. If a syntax has no marker
// and its calls begin as JSON does, an answer that begins with these characters is a call.
std::vector<CallsInText::Begin> begins_of_calls(const CallSyntax& syntax, const RequiredCalls::Call* one, bool several);

}  // namespace ibid::serve
