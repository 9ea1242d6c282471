// Site: what the handlers of all protocols share: the service, the time, and names that nobody can guess. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "server/http/exchange.h"
#include "server/http/router.h"
#include "server/protocol/backend.h"
#include "server/protocol/fault.h"

namespace ibid::serve {

class ConversationStore;

struct Site {
  std::shared_ptr<Backend> backend;
  Clock& clock = system_clock();
  ConversationStore* store = nullptr;  // outlives the site
  std::string version = {};  // of the server, where a protocol asks
  bool namespace_by_user = false;  // the field "user" of a request tells namespaces of one key apart

  // `prefix` and 32 hexadecimal digits, random.
  std::function<std::string(std::string_view prefix)> new_id;

  int64_t now_s() const { return clock.unix_ns() / 1'000'000'000; }
};

std::string random_id(std::string_view prefix);

// Answers a request with JSON, or with a fault.
void respond_json(http::Exchange& exchange, const Json& json, int status = 200);
void respond_fault(http::Exchange& exchange, const Fault& fault, ErrorStyle style);

// "2026-01-31T12:00:00.123456789Z"
std::string iso_time(int64_t unix_ns);

}  // namespace ibid::serve
