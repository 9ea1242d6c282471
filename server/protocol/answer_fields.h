// The fields of requests for answers that several protocols share, as rows of their tables: sampling
// (sampler_fields.cc); tools, response format, length and template variables (answer_fields.cc). And readers that a
// protocol's own rows are made of. Readers throw Fault.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "server/protocol/call.h"
#include "server/protocol/field.h"
#include "server/service/request.h"

namespace ibid::serve {

// Sampling fields under all common names: OpenAI, llama.cpp, vLLM and Ollama ("options") use this one table. The ranges
// are those of SamplerOptions.
std::span<const Field<AnswerRequest>> sampler_fields();
// n, truncate, cache_salt, and the response formats of llama.cpp and vLLM (grammar, json_schema, guided_...).
std::span<const Field<AnswerRequest>> common_answer_fields();
// Fields of requests with messages: tools, tool_choice, parallel_tool_calls, response_format, reasoning_effort,
// chat_template_kwargs ...
std::span<const Field<AnswerRequest>> chat_answer_fields();

// Reads the rows of all tables into the request, then checks them together. Throws the first fault.
void read_answer_fields(const Json& body, AnswerRequest& request, bool has_messages);

// The rules of a body with a prompt or with messages: `own` and the shared ones.
std::vector<FieldRule> prompt_rules(std::vector<FieldRule> own);
std::vector<FieldRule> message_rules(std::vector<FieldRule> own);

// Maximum number of stop strings, and bytes of each.
inline constexpr size_t kMaxStopStrings = 16;
inline constexpr size_t kMaxStopBytes = 1024;
// Reads a text or a list of texts; also for protocols that name the field differently ("stop_sequences").
void read_stop(const Json& value, AnswerRequest& request);

// Checks combinations of sampling fields. REQUIRES: all fields are read.
void check_sampler(const AnswerRequest& request);

// [{"type": "function", "function": {"name", "description", "parameters"}}, ...]
void read_tools(const Json& list, AnswerRequest& request);
// Fault: `strict` is not a boolean or null; the param is ".strict".
void check_strict(const Json& tool);
// Appends one tool in that form to the request's.
void add_tool(AnswerRequest& request, Json function);

// Enables or disables thinking, by all variables that known templates use for it.
void set_thinking(AnswerRequest& request, bool thinks);
// "none", "minimal", "low", "medium", "high", "xhigh".
void read_effort(const Json& value, AnswerRequest& request);

// Sets the response format; a second one is a fault. A schema is any object. field: its name in the request; fault.cc
// must list it.
void set_form(AnswerRequest& request, ResponseFormat::Kind kind, const Json& value, std::string field);

inline void set_max_tokens(const Json& value, AnswerRequest& request) { store(value, request.options.max_tokens); }
inline constexpr double kMostMaxTokens = 2147483647;

}  // namespace ibid::serve
