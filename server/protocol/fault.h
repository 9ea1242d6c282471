// Fault: why a request is refused, independent of protocols, and its body in each protocol. A fault mentions only the
// request that it answers, and no data of other clients. Plain data and pure functions.
//
// Readers of requests throw it. It is caught where the handler of an endpoint is called (answer_or_refuse() in site.h),
// and never passes through a thread of an engine.
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
  std::string param = {};               // the field, as a path: "messages[2].content"; empty: none in particular
  std::string code = "invalid_value";   // machine-readable
  std::chrono::seconds retry_after{1};  // for 429 and 503

  std::string text() const { return param.empty() ? message : param + ": " + message; }
};

inline Fault wrong_type(std::string message, std::string param = {}) {
  return {.message = std::move(message), .param = std::move(param), .code = "invalid_type"};
}
inline Fault missing_field(std::string param = {}) {
  return {.message = "is missing", .param = std::move(param), .code = "missing_required_parameter"};
}

// Calls `read`; prefixes the param of its fault by `place`: ".content".
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

// Calls `read` with each entry of a list; prefixes the param of its fault by the entry's index.
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

// Converts an error of the service: 400: the request must change; 404: no such model; 429: busy; 503: short memory, a
// model that cannot be loaded, a shutdown; 504: a deadline has passed; 500: a bug or other failure.
Fault fault_of(const Status& status);

// How a group of protocols writes errors.
enum class ErrorStyle {
  kOpenAi,     // {"error": {"message", "type", "param", "code"}}, also for llama.cpp
  kAnthropic,  // {"type": "error", "error": {"type", "message"}}
  kOllama,     // {"error": "..."}
};

Json fault_json(const Fault& fault, ErrorStyle style);
// The whole response; 429 and 503 include Retry-After.
http::Response fault_response(const Fault& fault, ErrorStyle style);

// The style of the protocol that a path belongs to.
ErrorStyle style_of_path(std::string_view path);
// The body of an error that no handler wrote (http::Server::ErrorBody).
std::string error_body(int status, std::string_view message, std::string_view path);

}  // namespace ibid::serve
