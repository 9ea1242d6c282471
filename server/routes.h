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
#include "server/server_metrics.h"

namespace ibid::serve {

class AnswerService;
class ModelHost;

enum class Readiness : uint8_t { kLoading, kReady, kDraining };

// What the routes that are the server's own tell. Outlives the router's use.
struct ServerFacts {
  std::atomic<Readiness> readiness{Readiness::kLoading};
  std::atomic<const http::Server*> server{nullptr};  // once there is one
  ServerMetrics metrics;
  std::string version;
  bool namespace_by_user = false;  // as Site has it
};

// GET /health, /v1/health: alive; asks nothing that could wait.
// GET /ready: 200, or 503 while the first model is loaded and once the server is ending.
// GET /version: of the program.
// GET /metrics: for Prometheus, behind the key.
void add_server_routes(http::Router& router, ServerFacts& facts, const AnswerService* service, const ModelHost* models);

// All of them, and those of the protocols and of the pages. REQUIRES: all outlive the server that uses the router.
http::Router make_routes(ServerFacts& facts, AnswerService& service, ModelHost& models, Clock& clock);

}  // namespace ibid::serve
