// The fields of requests for answers that several protocols have, as rows of their tables: how an answer is sampled
// (sampler_fields.cc), and what it may be besides (answer_fields.cc): tools, its form, its length, what the template is
// told. And the pieces that a protocol's own rows are made of. Readers throw Fault.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "server/protocol/call.h"
#include "server/protocol/field.h"
#include "server/service/request.h"

namespace ibid::serve {

// Under all usual names: OpenAI, llama.cpp, vLLM and Ollama ("options") read this one table, whose ranges are those of
// SamplerOptions.
std::span<const Field<AnswerRequest>> sampler_fields();
// n, truncate, cache_salt, and the forms of llama.cpp and vLLM (grammar, json_schema, guided_...): of every request.
std::span<const Field<AnswerRequest>> common_answer_fields();
// tools, tool_choice, parallel_tool_calls, response_format, reasoning_effort, chat_template_kwargs ...: of requests
// with messages.
std::span<const Field<AnswerRequest>> chat_answer_fields();

// Reads the rows of all tables into the request, then checks what they say together. Throws the first fault.
void read_answer_fields(const Json& body, AnswerRequest& request, bool has_messages);

// The rules of a body with these rows of its own: of a prompt, of messages.
std::vector<FieldRule> prompt_rules(std::vector<FieldRule> own);
std::vector<FieldRule> message_rules(std::vector<FieldRule> own);

// Most entries, and most bytes of each.
inline constexpr size_t kMaxStopStrings = 16;
inline constexpr size_t kMaxStopBytes = 1024;
// A text, or a list of texts. For protocols that call the field otherwise ("stop_sequences").
void read_stop(const Json& value, AnswerRequest& request);

// Checks what no single field of sampling shows. REQUIRES: all fields are read.
void check_sampler(const AnswerRequest& request);

// [{"type": "function", "function": {"name", "description", "parameters"}}, ...]
void read_tools(const Json& list, AnswerRequest& request);
// Fault: what it says of `strict` is not true, false or nothing; the param is ".strict".
void check_strict(const Json& tool);
// One tool in that form, added to the request's.
void add_tool(AnswerRequest& request, Json function);

// Tells templates to think or not, in the words of all that know any.
void set_thinking(AnswerRequest& request, bool thinks);
// "none", "minimal", "low", "medium", "high", "xhigh".
void read_effort(const Json& value, AnswerRequest& request);

// Sets the form of the answer, of which a request has one at most. A schema is any object.
// field: where it stands in the request; fault.cc knows all of these.
void set_form(AnswerRequest& request, ResponseFormat::Kind kind, const Json& value, std::string field);

inline void set_max_tokens(const Json& value, AnswerRequest& request) { store(value, request.options.max_tokens); }
inline constexpr double kMostMaxTokens = 2147483647;

}  // namespace ibid::serve
