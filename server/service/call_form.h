// Calls of tools as a model writes them (CallSyntax), as what grammars of answers are made of.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "grammar/compile_budget.h"
#include "grammar/grammar.h"
#include "server/service/answer_request.h"
#include "templates/reply/reply_format.h"

namespace ibid::serve {

// How far a call is held to its tool's schema.
enum class Arguments {
  kBySchema,       // what the schema accepts; a schema that no grammar can say is an error
  kAsToolsSay,     // the same for tools that say `strict`; of others, as far as a grammar can say it
};

// A tool that may be called.
struct CallableTool {
  std::string name;
  Json schema;          // of its arguments
  bool strict = false;  // it says so
};
// All that have a name; or the one of that name.
std::vector<CallableTool> callable_tools(const Json& tools, const std::string& only = {});

// One call of one of the tools. Errors: those of the schemas, with the tool's name; kUnsupported for a form of which no
// grammar is made.
Result<DemandedCalls::Call> call_of(const CallSyntax& syntax, const std::vector<CallableTool>& tools,
                                    Arguments arguments, CompileBudget& budget);

// The words with which calls begin in a text, and how the text goes on: with one call, or with all of a section.
// one: nothing: none of the words may come. Where a form has no words of its own but begins as JSON does, an answer
// that begins as its calls do is a call.
std::vector<CallsInText::Begin> begins_of_calls(const CallSyntax& syntax, const DemandedCalls::Call* one, bool several);

}  // namespace ibid::serve
