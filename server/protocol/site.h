// Site: the objects that the handlers of all protocols share: the service, the clock, the store, a source of ids.
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/text.h"
#include "server/http/exchange.h"
#include "server/http/router.h"
#include "server/protocol/fault.h"
#include "server/service/backend.h"

namespace ibid::serve {

class ConversationStore;

struct Site {
  std::shared_ptr<Backend> backend;
  Clock& clock = system_clock();
  ConversationStore* store = nullptr;  // must outlive the site
  std::string version = {};            // the server's version, for protocols that report it
  bool namespace_by_user = false;      // a request that names a user gets that user's namespace within the key's
  bool allows_no_user = false;         // with namespace_by_user: a request without a user uses the key's namespace
  bool checks_model_names = false;     // an unknown name is an error, also if the server has only one model
  bool keeps_client_lines = false;     // system messages keep the lines that drop_client_lines() would remove
  size_t n_parallel = 1;               // number of answers computed at a time; llama.cpp's "slots"

  // Returns `prefix` and 32 random hexadecimal digits.
  std::function<std::string(std::string_view prefix)> new_id;

  // Answers with equal fingerprints, requests and seeds are equal.
  std::string fingerprint() const { return "ibid-" + version; }
  int64_t now_s() const { return clock.unix_ns() / 1'000'000'000; }
};

// Responds with JSON.
inline void respond_json(http::Exchange& exchange, const Json& json, int status = 200) {
  exchange.respond({.status = status, .body = json_to_string(json)});
}

// Calls `answer`, which responds or passes the exchange on. If it throws a fault, responds with the fault in the style
// of the path's protocol. If memory is out, responds nothing: when the exchange is destroyed without a response, the
// client gets a 500.
template <typename Answer>
void answer_or_refuse(http::Exchange& exchange, const Answer& answer) {
  try {
    answer();
  } catch (const Fault& fault) {
    exchange.respond(fault_response(fault, style_of_path(exchange.request().path)));
  } catch (const std::bad_alloc&) {
  }
}

// Returns a time as "2026-01-31T12:00:00.123456789Z".
inline std::string precise_time(int64_t unix_ns) {
  return iso_time(unix_ns) + "." + padded_number(static_cast<uint64_t>(unix_ns % 1'000'000'000), 9) + "Z";
}

}  // namespace ibid::serve
