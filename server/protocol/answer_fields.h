// What an answer may be, besides how it is sampled: tools, its form, its length, what the template is told. Fields that
// several protocols have, as rows of their tables, and the pieces that the others are made of.
#pragma once

#include <span>
#include <string_view>

#include "server/protocol/field.h"
#include "server/service/request.h"

namespace ibid::serve {

// tools, tool_choice, parallel_tool_calls, response_format, reasoning_effort, chat_template_kwargs ...: of requests
// with messages.
std::span<const Field<AnswerRequest>> chat_answer_fields();
// n, truncate, cache_salt, and the forms of llama.cpp and vLLM (grammar, json_schema, guided_...): of every request.
std::span<const Field<AnswerRequest>> common_answer_fields();

// Checks what two fields say together, and that a tool that is chosen is one of the request's. REQUIRES: all are read.
MaybeFault check_answer(const AnswerRequest& request);

// [{"type": "function", "function": {"name", "description", "parameters"}}, ...]
MaybeFault read_tools(const Json& list, AnswerRequest& request);
// Whether what it says of `strict` is true, false or nothing; the fault's param is ".strict".
MaybeFault check_strict(const Json& tool);
// One tool in that form, added to the request's.
void add_tool(AnswerRequest& request, Json function);

// Tells templates to think or not, in the words of all that know any.
void set_thinking(AnswerRequest& request, bool thinks);
// "none", "minimal", "low", "medium", "high", "xhigh".
MaybeFault read_effort(const Json& value, AnswerRequest& request);

// A schema, which is any object. One form is the most that a request may have.
// field: where it stands in the request; fault.cc knows all of these.
MaybeFault set_form(AnswerRequest& request, AnswerForm::Kind kind, const Json& value, std::string field);

MaybeFault set_max_tokens(const Json& value, AnswerRequest& request);
inline constexpr double kMostMaxTokens = 2147483647;

}  // namespace ibid::serve
