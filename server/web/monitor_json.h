// The data of /monitor as JSON: HTTP, answers, and the memory and disk of each loaded model.
//
// The namespaces of keys identify users: a request sees only its own namespace by name, and the sum of all others as
// one row. The data contains no texts and no tokens. Counters count since the start of the server (of a model: since it
// was loaded); values such as bytes are current.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/json_fwd.h"
#include "server/http/router.h"
#include "server/http/server.h"
#include "server/service/model_host.h"
#include "server/service/service.h"

namespace ibid::serve {

// The state of the server at one moment.
struct MonitorSample {
  http::ServerStats server;
  ServiceStats answers;
  std::vector<HostedModel> models;
};

// Returns {"time_ms", "uptime_s", "server": {...}, "answers": {...}, "tokens": {...}, "conversations": {...}, "models":
// [{"name", "loaded", "file_bytes", and if loaded "max_seq_len", "passes", "pool", "store", "namespaces": [{"name",
// "is_own", "bytes", "pages", "hits", "lookups"}], "tiers": [{"name": "directory" or "server", "bytes", "pages",
// "hits", "misses", "tokens_read", "pages_written", "evicted", "waiting", "waiting_bytes", "dropped", "failures",
// "quarantined", "bytes_read", "bytes_written", "is_usable", "is_writing"}]}]}. time_ms: of a monotonic clock.
Json monitor_json(const MonitorSample& sample, std::string_view cache_namespace, int64_t now_ns, int64_t start_ns);

// Adds GET /monitor.json, which requires the API key. `take` and the clock are called on any thread while the server
// runs. The uptime starts with this call.
void add_monitor_route(http::Router& router, std::function<MonitorSample()> take, Clock& clock);

}  // namespace ibid::serve
