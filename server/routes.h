// The routes of `ibid serve`: every path that it answers, in one list. Those of the protocols are in
// server/protocol/endpoints.h, those of the pages in server/web/page_routes.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "base/clock.h"
#include "server/http/router.h"
#include "server/http/server.h"
#include "server/metrics.h"

namespace ibid::serve {

class ModelHost;
class Service;

enum class Readiness : uint8_t { kLoading, kReady, kDraining };

// The state that the server's own routes report. Outlives the router's use.
struct ServerFacts {
  std::atomic<Readiness> readiness{Readiness::kLoading};
  std::atomic<const http::Server*> server{nullptr};  // null until it listens
  ServerMetrics metrics;
  std::string version;
  bool namespace_by_user = false;  // as in Site
};

// GET /health, /v1/health: alive; never blocks.
// GET /ready: 200, or 503 while the first model is loaded and once the server is ending.
// GET /version: of the program.
// GET /metrics: for Prometheus, behind the key.
void add_server_routes(http::Router& router, ServerFacts& facts, const Service* service, const ModelHost* models);

// All of them, and those of the protocols and of the pages. REQUIRES: all outlive the server that uses the router.
http::Router make_routes(ServerFacts& facts, Service& service, ModelHost& models, Clock& clock);

}  // namespace ibid::serve
