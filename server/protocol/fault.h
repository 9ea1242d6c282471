// Fault: the reason for which a request is refused, independent of protocols, and the response for it in each protocol.
// A fault mentions only the request that it refuses, and no data of other clients. Plain data and pure functions.
//
// Functions that read requests throw faults. They are caught where the handler of an endpoint is called
// (answer_or_refuse() in site.h), and never pass through a thread of an engine.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "base/json_limits.h"
#include "base/result.h"
#include "server/http/exchange.h"

namespace ibid::serve {

struct Fault {
  int status = 400;                     // HTTP status
  std::string message;                  // "must be a number from 0 to 2"; shown after the param, if there is one
  std::string param = {};               // path of the field: "messages[2].content"; empty: no particular field
  std::string code = "invalid_value";   // name of the reason, by which programs recognise it
  std::chrono::seconds retry_after{1};  // sent with 429 and 503
  size_t n_prompt = 0, n_context = 0;   // numbers of tokens; set if the prompt exceeds the context

  std::string text() const { return param.empty() ? message : param + ": " + message; }
};

inline Fault wrong_type(std::string message, std::string param = {}) {
  return {.message = std::move(message), .param = std::move(param), .code = "invalid_type"};
}
inline Fault missing_field(std::string param = {}) {
  return {.message = "is missing", .param = std::move(param), .code = "missing_required_parameter"};
}

// Converts an error of the service to a fault. Status: 400: the request must change; 404: no such model; 429: busy;
// 503: short memory, a model that cannot be loaded, a shutdown; 504: a deadline has passed; 500: a bug or other
// failure.
Fault fault_of(const Status& status);

// The form of errors in a group of protocols.
enum class ErrorStyle {
  kOpenAi,     // {"error": {"message", "type", "param", "code"}}
  kLlama,      // as kOpenAi, with llama.cpp's type for a prompt that exceeds the context; also for paths without /v1
  kAnthropic,  // {"type": "error", "error": {"type", "message"}}
  kOllama,     // {"error": "..."}
};

Json fault_json(const Fault& fault, ErrorStyle style);
// Returns the whole response; 429 and 503 include Retry-After.
http::Response fault_response(const Fault& fault, ErrorStyle style);

// Returns the style of the protocol that a path belongs to.
ErrorStyle style_of_path(std::string_view path);
// Returns the body of an error that no handler wrote (http::Server::ErrorBody).
std::string error_body(int status, std::string_view message, std::string_view path);

}  // namespace ibid::serve
