// The figures of /monitor, as JSON: HTTP, the answers, and the memory and disk of each loaded model.
//
// Keys of namespaces are users: a request sees its own namespace by name, and the others as one row. Texts, ids and
// names of other namespaces are nowhere in it. Counters count since the start of the server (of a model: since it was
// loaded), except values such as bytes, which are current.
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

// Everything at one moment.
struct MonitorSample {
  http::ServerStats server;
  ServiceStats answers;
  std::vector<HostedModel> models;
};

// {"time_ms", "uptime_s", "server": {...}, "answers": {...}, "tokens": {...}, "conversations": {...}, "models":
// [{"name", "loaded", "file_bytes", and of a loaded one "max_seq_len", "passes", "pool", "store", "namespaces":
// [{"name", "is_own", "bytes", "pages", "hits", "lookups"}], "tier" (null: none)}]}. time_ms is of a clock without a
// date.
Json monitor_json(const MonitorSample& sample, std::string_view cache_namespace, int64_t now_ns, int64_t start_ns);

// Adds GET /monitor.json, behind the API key. `take` is called from any thread, for as long as the server runs; so is
// the clock. The server has started when this is called.
void add_monitor_route(http::Router& router, std::function<MonitorSample()> take, Clock& clock);

}  // namespace ibid::serve
