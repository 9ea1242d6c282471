// All routes of `ibid serve`. The routes of the protocols are defined in server/protocol/endpoints.h, those of the
// pages in server/web/page_routes.h.
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

// The state that the server's own routes report. REQUIRES: outlives the use of the router.
struct ServerFacts {
  std::atomic<Readiness> readiness{Readiness::kLoading};
  std::atomic<const http::Server*> server{nullptr};  // null until the server listens
  ServerMetrics metrics;
  std::string version;
  // As in Site.
  bool namespace_by_user = false, allows_no_user = false, checks_model_names = false, keeps_client_lines = false;
  size_t n_parallel = 1;
};

// GET /health, /v1/health: 200 if the process is alive; never blocks.
// GET /ready: 200, or 503 while the first model is loaded and during shutdown.
// GET /version: the program's version.
// GET /metrics: for Prometheus; requires the API key.
void add_server_routes(http::Router& router, ServerFacts& facts, const Service* service, const ModelHost* models);

// Returns the server's own routes, those of the protocols and those of the pages. REQUIRES: all arguments outlive the
// server that uses the router.
http::Router make_routes(ServerFacts& facts, Service& service, ModelHost& models, Clock& clock);

}  // namespace ibid::serve
