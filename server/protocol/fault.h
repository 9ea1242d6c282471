// Fault: why a request is refused, in the words of no protocol, and its body in the words of each. A fault speaks of
// the request that it answers and of nothing that other clients have said. Plain data and pure functions.
//
// Readers of requests throw it. It is caught where an endpoint is run (answer_or_refuse() in site.h) and passes no
// other border: handlers run on no thread of an engine.
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
  int status = 400;                     // of HTTP
  std::string message;                  // "must be a number from 0 to 2"; with a param it follows that name
  std::string param = {};               // the field, as a path: "messages[2].content"; empty: none in particular
  std::string code = "invalid_value";   // for programs
  std::chrono::seconds retry_after{1};  // of 429 and 503

  std::string text() const { return param.empty() ? message : param + ": " + message; }
};

inline Fault wrong_type(std::string message, std::string param = {}) {
  return {.message = std::move(message), .param = std::move(param), .code = "invalid_type"};
}
inline Fault missing_field(std::string param = {}) {
  return {.message = "is missing", .param = std::move(param), .code = "missing_required_parameter"};
}

// Calls `read`. A fault that it throws gets `place` before its param: ".content".
template <typename Read>
void read_at(std::string_view place, const Read& read) {
  try {
    read();
  } catch (Fault& fault) {
    fault.param.insert(0, place);
    throw;
  }
}

// "[2]"
inline std::string place_in_list(size_t i) { return "[" + std::to_string(i) + "]"; }

// Calls `read` with each entry of a list. A fault that it throws gets the entry's place before its param.
template <typename Read>
void read_each(const Json& list, const Read& read) {
  for (size_t i = 0; i < list.size(); ++i) {
    try {
      read(list[i]);
    } catch (Fault& fault) {
      fault.param.insert(0, place_in_list(i));
      throw;
    }
  }
}

// Translates the service's error: 400 where the request has to change, 404: no such model, 429: no more now, 503: short
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
