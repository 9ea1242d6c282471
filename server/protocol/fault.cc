#include "server/protocol/fault.h"

#include <charconv>
#include <utility>

namespace ibid::serve {

namespace {

// Anthropic's status for "overloaded"; not defined by HTTP.
constexpr int kAnthropicOverloaded = 529;

const char* openai_type(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    default: return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

const char* anthropic_type(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 503: return "overloaded_error";
    case 504: return "timeout_error";
    default: return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

std::string code_of_status(int status) {
  switch (status) {
    case 401: return "invalid_api_key";
    case 404: return "not_found";
    case 405: return "method_not_allowed";
    case 413: return "request_too_large";
    case 429: return "server_busy";
    default: return status >= 500 ? "server_error" : "invalid_request";
  }
}

// Returns the number that begins at text[at]; 0: no number begins there.
size_t number_at(std::string_view text, size_t at) {
  size_t number = 0;
  std::from_chars(text.data() + at, text.data() + text.size(), number);
  return number;
}

// Replaces the runtime's message "... N tokens, the context has room for M ..." and stores its two numbers. The new
// message has the words by which clients recognise this error, advice for HTTP clients, and no quotes: LiteLLM searches
// Python's repr() of the text, which escapes its apostrophe if it has quotes.
void describe_full_context(Fault& fault) {
  constexpr std::string_view kRoom = " tokens, the context has room for ";
  const std::string_view message = fault.message;
  const size_t at = message.find(kRoom);
  if (at == message.npos) return;
  size_t begin = at;
  while (begin > 0 && message[begin - 1] >= '0' && message[begin - 1] <= '9') --begin;
  fault.n_prompt = number_at(message, begin);
  fault.n_context = number_at(message, at + kRoom.size());
  fault.message = "This model's maximum context length is " + std::to_string(fault.n_context) +
                  " tokens, but the prompt has " + std::to_string(fault.n_prompt) +
                  " tokens and exceeds the available context size; send fewer or shorter messages, or set truncate to "
                  "oldest (drops the oldest turns) or to middle (truncates the newest message) "
                  "(context_length_exceeded)";
}

// Errors of options begin with the option's name, which becomes the param: "logit_bias: token id 90000 ...". Errors of
// response formats begin with ResponseFormat::field.
Fault fault_of_field(const Status& status) {
  static constexpr std::string_view kFields[] = {"logit_bias",
                                                 "allowed_token_ids",
                                                 "logprob_token_ids",
                                                 "n",
                                                 "tool_choice",
                                                 "tools",
                                                 "suffix",
                                                 "grammar",
                                                 "json_schema",
                                                 "guided_json",
                                                 "guided_regex",
                                                 "guided_choice",
                                                 "guided_grammar",
                                                 "structured_outputs.json",
                                                 "structured_outputs.regex",
                                                 "structured_outputs.choice",
                                                 "structured_outputs.grammar",
                                                 "response_format.schema",
                                                 "response_format.json_schema.schema",
                                                 "text.format.schema",
                                                 "output_config.format.schema",
                                                 "output_format.schema",
                                                 "format"};
  Fault fault{.message = status.message()};
  for (const std::string_view field : kFields) {
    if (!fault.message.starts_with(std::string(field) + ": ")) continue;
    fault.param = field;
    fault.message.erase(0, field.size() + 2);
    break;
  }
  return fault;
}

}  // namespace

Fault fault_of(const Status& status) {
  Fault fault = fault_of_field(status);
  switch (status.code()) {
    case ErrorCode::kContextFull:
      fault.code = "context_length_exceeded";
      describe_full_context(fault);
      return fault;
    case ErrorCode::kNotFound: fault.status = 404, fault.code = "model_not_found"; return fault;
    case ErrorCode::kBusy: fault.status = 429, fault.code = "server_busy"; return fault;
    case ErrorCode::kOutOfMemory: fault.status = 503, fault.code = "out_of_memory"; return fault;
    case ErrorCode::kIo: fault.status = 503, fault.code = "service_unavailable"; return fault;
    case ErrorCode::kCancelled: fault.status = 504, fault.code = "cancelled"; return fault;
    case ErrorCode::kDeadline: fault.status = 504, fault.code = "deadline_exceeded"; return fault;
    case ErrorCode::kUnsupported: fault.code = "unsupported_value"; return fault;
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kLimitExceeded:
    case ErrorCode::kDuplicate:
    case ErrorCode::kBadNumber:
    case ErrorCode::kTooLong: return fault;
    case ErrorCode::kTemplateError:
    case ErrorCode::kTemplateRaise:
    case ErrorCode::kTemplateBudget: fault.code = "template_refused"; return fault;
    default: fault.status = 500, fault.code = "server_error"; return fault;
  }
}

Json fault_json(const Fault& fault, ErrorStyle style) {
  switch (style) {
    case ErrorStyle::kOllama: return {{"error", fault.text()}};
    case ErrorStyle::kAnthropic: {
      const std::string too_long = "prompt is too long: " + std::to_string(fault.n_prompt) + " tokens > " +
                                   std::to_string(fault.n_context) + " maximum";
      return {{"type", "error"},
              {"error",
               {{"type", anthropic_type(fault.status)}, {"message", fault.n_context > 0 ? too_long : fault.text()}}}};
    }
    case ErrorStyle::kOpenAi:
    case ErrorStyle::kLlama: break;
  }
  Json error = {{"message", fault.text()},
                {"type", openai_type(fault.status)},
                {"param", fault.param.empty() ? Json() : Json(fault.param)},
                {"code", fault.code}};
  if (fault.n_context > 0) {
    if (style == ErrorStyle::kLlama) error["type"] = "exceed_context_size_error";
    error["n_prompt_tokens"] = fault.n_prompt;
    error["n_ctx"] = fault.n_context;
  }
  return {{"error", std::move(error)}};
}

http::Response fault_response(const Fault& fault, ErrorStyle style) {
  http::Response response{.status = fault.status, .body = json_to_string(fault_json(fault, style))};
  if (fault.status == 429 || fault.status == 503) {
    response.headers.emplace_back("Retry-After", std::to_string(fault.retry_after.count()));
  }
  if (style == ErrorStyle::kAnthropic && fault.status == 503) response.status = kAnthropicOverloaded;
  return response;
}

ErrorStyle style_of_path(std::string_view path) {
  if (path.starts_with("/v1/messages")) return ErrorStyle::kAnthropic;
  if (path.starts_with("/api/")) return ErrorStyle::kOllama;
  return path.starts_with("/v1/") ? ErrorStyle::kOpenAi : ErrorStyle::kLlama;
}

std::string error_body(int status, std::string_view message, std::string_view path) {
  const Fault fault{.status = status, .message = std::string(message), .code = code_of_status(status)};
  return json_to_string(fault_json(fault, style_of_path(path)));
}

}  // namespace ibid::serve
