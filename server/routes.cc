#include "server/routes.h"

#include <memory>

#include "base/json_limits.h"
#include "base/text.h"
#include "server/protocol/endpoints.h"
#include "server/service/model_host.h"
#include "server/service/service.h"
#include "server/web/monitor_json.h"
#include "server/web/page_routes.h"

namespace ibid::serve {

namespace {

using http::Access;
using http::ExchangePtr;
using http::PathParts;

void answer_health(const ExchangePtr& exchange, const PathParts&) {
  exchange->respond({.body = "{\"status\":\"ok\"}"});
}

void answer_ready(Readiness readiness, const ExchangePtr& exchange) {
  switch (readiness) {
    case Readiness::kReady: return exchange->respond({.body = "{\"status\":\"ready\"}"});
    case Readiness::kLoading:
      return exchange->respond({.status = 503, .body = "{\"status\":\"loading\"}", .headers = {{"Retry-After", "1"}}});
    case Readiness::kDraining: return exchange->respond({.status = 503, .body = "{\"status\":\"ending\"}"});
  }
}

}  // namespace

void add_server_routes(http::Router& router, ServerFacts& facts, const Service* service, const ModelHost* models) {
  router.add("GET", "/health", answer_health, Access::kEverybody);
  router.add("GET", "/v1/health", answer_health, Access::kEverybody);
  const auto ready = [&facts](const ExchangePtr& exchange, const PathParts&) {
    answer_ready(facts.readiness, exchange);
  };
  router.add("GET", "/ready", ready, Access::kEverybody);
  router.add("GET", "/version", [&facts](const ExchangePtr& exchange, const PathParts&) {
    exchange->respond({.body = json_to_string(Json{{"version", facts.version}})});
  });
  router.add("GET", "/metrics", [&facts, service, models](const ExchangePtr& exchange, const PathParts&) {
    const http::Server* server = facts.server.load();
    const http::ServerStats stats = server == nullptr ? http::ServerStats{} : server->stats();
    exchange->respond({.content_type = "text/plain; version=0.0.4; charset=utf-8",
                       .body = facts.metrics.text(stats, service, models),
                       .headers = {{"Process-Start-Time-Unix", std::to_string(facts.metrics.start_s())}}});
  });
}

http::Router make_routes(ServerFacts& facts, Service& service, ModelHost& models, Clock& clock) {
  http::Router router;
  add_server_routes(router, facts, &service, &models);
  // A pointer that does not own the service.
  add_endpoints(router, Site{.backend = std::shared_ptr<Backend>(std::shared_ptr<Backend>(), &service),
                             .clock = clock,
                             .store = &service.store(),
                             .version = facts.version,
                             .namespace_by_user = facts.namespace_by_user,
                             .allows_no_user = facts.allows_no_user,
                             .checks_model_names = facts.checks_model_names,
                             .keeps_client_lines = facts.keeps_client_lines,
                             .n_parallel = facts.n_parallel,
                             .new_id = [](std::string_view prefix) { return std::string(prefix) + random_digits(); }});
  add_page_routes(router);
  const auto sample = [&facts, &service, &models] {
    const http::Server* server = facts.server.load();
    return MonitorSample{server == nullptr ? http::ServerStats{} : server->stats(), service.stats(), models.list()};
  };
  add_monitor_route(router, sample, clock);
  return router;
}

}  // namespace ibid::serve
