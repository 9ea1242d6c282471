// The fields of requests for answers that several protocols share, as rows of their tables: sampling
// (sampler_fields.cc); tools, response format, length and template variables (answer_fields.cc). Also functions that a
// protocol's own rows use to read values. All of them throw Fault.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sampling/stop_detector.h"
#include "server/protocol/call.h"
#include "server/protocol/field.h"
#include "server/service/request.h"

namespace ibid::serve {

// Returns the sampling fields under all common names: OpenAI, llama.cpp, vLLM and Ollama ("options") use this one
// table. The ranges are those of SamplerOptions.
std::span<const Field<AnswerRequest>> sampler_fields();
// Returns n, truncate, cache_salt, and the response formats of llama.cpp and vLLM (grammar, json_schema, guided_...).
std::span<const Field<AnswerRequest>> common_answer_fields();
// Returns the fields of requests with messages: tools, tool_choice, parallel_tool_calls, response_format,
// reasoning_effort, chat_template_kwargs ...
std::span<const Field<AnswerRequest>> chat_answer_fields();

// Reads the rows of all tables into the request, then checks them together. Throws the first fault.
void read_answer_fields(const Json& body, AnswerRequest& request, bool has_messages);

// Return the rules of the fields of a body with a prompt (prompt_rules()) or with messages: `own`, those of the
// protocol, and those of the shared fields.
std::vector<FieldRule> prompt_rules(std::vector<FieldRule> own);
std::vector<FieldRule> message_rules(std::vector<FieldRule> own);

// Maximum number of stop strings, and of bytes in each.
inline constexpr size_t kMaxStopStrings = StopDetector::kMaxStrings;
inline constexpr size_t kMaxStopBytes = StopDetector::kMaxBytes;
// Reads stop strings: a text or a list of texts. Also for protocols that name the field differently ("stop_sequences").
void read_stop(const Json& value, AnswerRequest& request);

// Reads "logit_bias" as llama.cpp's server does: the keys of an object may be texts, too, which stand for their tokens.
void read_llama_bias(const Json& value, AnswerRequest& request);
inline constexpr std::string_view kBiasSchema =
    R"({"type":"object","additionalProperties":{"type":"number","minimum":-100,"maximum":100},)"
    R"("propertyNames":{"pattern":"^[0-9]{1,9}$"}})";

// Requests scores of the prompt, with the n_top likeliest tokens at each position; nullopt: none. Fault if `stream`.
void score_prompt(std::optional<size_t> n_top, bool stream, AnswerRequest& request);

// Sets chooses_length if the fields name a maximum length or switch it off, under any protocol's name for it.
void note_chosen_length(const Json& fields, AnswerRequest& request);

// Checks combinations of sampling fields. REQUIRES: all of these fields were read.
void check_sampler(const AnswerRequest& request);

// Reads [{"type": "function", "function": {"name", "description", "parameters"}}, ...]. Leaves out other types of
// tools.
void read_tools(const Json& list, AnswerRequest& request);
// Reports tool number `i` of the request, whose type is `type`, as left out.
void leave_out_tool(const Json& tool, size_t i, std::string_view type, AnswerRequest& request);
// Fault if the tool's `strict` is neither a boolean nor null; the param is ".strict".
void check_strict(const Json& tool);
// Appends a tool to those of the request. `function`: {"name", "description", "parameters"}.
void add_tool(AnswerRequest& request, Json function);

// Enables or disables thinking: sets all template variables that known templates use for it.
void set_thinking(AnswerRequest& request, bool thinks);
// Reads the effort of reasoning: "none", "minimal", "low", "medium", "high", "xhigh", "max".
void read_effort(const Json& value, AnswerRequest& request);

// The schema of "stream_options" of chat completions and completions.
inline constexpr std::string_view kStreamOptionsSchema =
    R"({"type":"object","properties":{"include_usage":{"type":"boolean"},"continuous_usage_stats":)"
    R"({"type":"boolean"}}})";

// Sets the response format. Fault if the request has one already. A schema is any object. field: name of the request's
// field; fault.cc must list it.
void set_form(AnswerRequest& request, ResponseFormat::Kind kind, const Json& value, std::string field);

inline constexpr double kMostMaxTokens = 2147483647;
// Sets the maximum length of answers in tokens. Negative: only the context limits it; 0: only prefills the prompt.
void set_max_tokens(const Json& value, AnswerRequest& request);

}  // namespace ibid::serve
