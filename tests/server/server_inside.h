#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"
#include "runtime/engine/engine_state.h"
#include "server/protocol/fault.h"
#include "server/routes.h"
#include "server/service/model_host.h"
#include "server/service/service.h"
#include "tests/server/http/raw_client.h"

namespace ibid::serve {

struct ServerInside {
  explicit ServerInside(const std::string& model, http::ServerOptions options = {},
                        const AdmissionOptions& admission = {.max_running = 32},
                        const ModelHost::Loader& load = load_with_two_threads) {
    auto created = ModelHost::create({ModelSource(model)}, load, system_clock(), {});
    EXPECT_TRUE(created.ok()) << created.status().message();
    models = *std::move(created);
    service = std::make_unique<Service>(*models, system_clock(), admission);
    options.port = 0;
    options.on_record = [this](const http::ExchangeRecord& record) { facts.metrics.add(record); };
    auto listening = http::Server::listen(options, make_routes(facts, *service, *models, system_clock()), error_body);
    EXPECT_TRUE(listening.ok()) << listening.status().message();
    server = *std::move(listening);
    facts.server = server.get();
    facts.readiness = Readiness::kReady;
  }

  static Result<std::shared_ptr<Engine>> load_with_two_threads(const std::string& path) {
    return Engine::load(path, {.n_threads = 2});
  }

  std::string ask(const std::string& request) const {
    http::RawClient one(server->port());
    one.send(request);
    return one.read_all();
  }

  ServerFacts facts;
  std::unique_ptr<ModelHost> models;
  std::unique_ptr<Service> service;
  std::unique_ptr<http::Server> server;
};

}  // namespace ibid::serve
