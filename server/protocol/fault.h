// Fault: why a request is refused, in the words of no protocol, and its body in the words of each. A fault speaks of
// the request that it answers and of nothing that other clients have said. Plain data and pure functions.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/json_limits.h"
#include "base/result.h"
#include "server/http/exchange.h"

namespace ibid::serve {

struct Fault {
  int status = 400;                   // of HTTP
  std::string message;                // "must be a number from 0 to 2"; with a param it follows that name
  std::string param = {};             // the field, as a path: "messages[2].content"; empty: none in particular
  std::string code = "invalid_value"; // for programs
  std::chrono::seconds retry_after{1}; // of 429 and 503

  std::string text() const { return param.empty() ? message : param + ": " + message; }
};
// None: all is well.
using MaybeFault = std::optional<Fault>;

// What the service's error means: 400 where the request has to change, 404: no such model, 429: no more now, 503: short
// memory, a model that cannot be loaded, a server about to end, 504: a deadline passed, 500 for what is ours.
Fault fault_of(const Status& status);

// How a family of protocols writes errors.
enum class ErrorStyle {
  kOpenAi,     // {"error": {"message", "type", "param", "code"}}, llama.cpp likewise
  kAnthropic,  // {"type": "error", "error": {"type", "message"}}
  kOllama,     // {"error": "..."}
};

Json fault_json(const Fault& fault, ErrorStyle style);
// The whole response; 429 and 503 say when to come again (Retry-After).
http::Response fault_response(const Fault& fault, ErrorStyle style);

// The style of the protocol that a path belongs to.
ErrorStyle style_of_path(std::string_view path);
// The body of an error that no handler wrote (http::Server::ErrorBody).
std::string error_body(int status, std::string_view message, std::string_view path);

}  // namespace ibid::serve
