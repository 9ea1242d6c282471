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

// Returns the constraint of a request's answers; nullptr: unconstrained. The constraint allows:
// - if the request lists the allowed tokens: any text of these tokens;
// - if the request requires a call: only calls;
// - if the request has a response format: a text of the format or, if the model may choose to call a tool, calls;
// - else any text, in which calls are limited as the request says.
// If the model reasons first, the call or the formatted text begins after the reasoning, else with the first token.
//
// The engine caches the most recent constraints, keyed by the parts of a request on which they depend. Errors:
// kInvalidArgument, kUnsupported, kLimitExceeded: those of grammar/grammar.h, naming the unsupported part and the tool
// whose schema has it.
Result<std::shared_ptr<const TokenConstraint>> constraint_for(const std::shared_ptr<Engine>& engine,
                                                              const AnswerRequest& request);

// --- Grammars of calls (call_form.cc).

// How strictly the arguments of a call follow the tool's schema.
enum class Arguments {
  kBySchema,    // exactly: a schema that no grammar can express is an error
  kAsToolsSay,  // exactly for tools with `strict`; for others, only the part of the schema that a grammar can express
};

// A tool that may be called.
struct CallableTool {
  std::string name;
  std::string description = {};
  Json schema;          // schema of the tool's arguments
  bool strict = false;  // `strict` in the tool's definition
};
// Returns all tools that have a name; if `only` is set, only the tool with that name.
std::vector<CallableTool> callable_tools(const Json& tools, const std::string& only = {});

// Returns the grammar of one call of any of the tools. Errors: those of the schemas, with the tool's name; kUnsupported
// if the syntax has no grammar.
Result<RequiredCalls::Call> call_of(const CallSyntax& syntax, const std::vector<CallableTool>& tools,
                                    Arguments arguments, CompileBudget& budget);

// Returns the texts that begin a call within an answer, each with the grammar of the text that follows: one call, or a
// section of calls if `several`. one: the grammar of a call; null: none of these texts may occur. If calls have no
// marker and begin as JSON does, an answer that begins as JSON is a call.
std::vector<CallsInText::Begin> begins_of_calls(const CallSyntax& syntax, const RequiredCalls::Call* one, bool several);

}  // namespace ibid::serve
