// ibid serve: the models of this machine over HTTP.
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "apps/chat/load_engine.h"
#include "apps/command_line/command.h"
#include "apps/serve/amounts.h"
#include "apps/serve/end_signals.h"
#include "apps/serve/process_limits.h"
#include "apps/serve/protocol/fault.h"
#include "apps/serve/request_log.h"
#include "apps/serve/routes.h"
#include "apps/serve/serve_arguments.h"
#include "apps/sessions/session_files.h"
#include "apps/terminal/remark.h"
#include "cache/tier/kv_tier.h"

namespace ibid::serve {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLastWords{1000};  // for answers that are told to end to say so

// Where the keys and values of a model outlive the process; empty: nowhere. A directory is one model's at a time.
Result<std::string> cache_directory_of(const ServeArguments& arguments, const std::string& path, bool is_only_model) {
  if (!arguments.cache && arguments.cache_directory.empty()) return std::string();
  std::string directory = arguments.cache_directory;
  if (directory.empty()) {
    TRY_ASSIGN(directory, kv_cache_directory());
  }
  return is_only_model ? directory : directory + "/" + std::filesystem::path(path).filename().string();
}

// How the server makes engines. What it says of a cache directory that cannot be used is for who reads the terminal.
ModelHost::Loader make_loader(const ServeArguments& arguments) {
  return [&arguments](const std::string& path) -> Result<std::shared_ptr<Engine>> {
    const bool is_only_model = arguments.models.size() <= 1;
    TRY_ASSIGN(const std::string directory, cache_directory_of(arguments, path, is_only_model));
    if (!directory.empty() && !is_only_model) {
      std::error_code error;
      std::filesystem::create_directories(std::filesystem::path(directory).parent_path(), error);
    }
    EngineOptions options = engine_options(arguments.running);
    options.cache_directory = directory;
    options.kv_budget_bytes = *read_bytes(arguments.kv_budget);
    if (!arguments.pooling.empty()) options.pooling = arguments.pooling == "mean" ? Pooling::kMean : Pooling::kLast;
    TRY_ASSIGN(std::shared_ptr<Engine> engine, load_engine(path, arguments.running, options));
    if (!engine->tier_status().ok()) {
      remark("ibid: the cache of keys and values is not used: " + engine->tier_status().message());
    }
    return engine;
  };
}

Result<std::vector<std::string>> find_models(const ServeArguments& arguments) {
  std::vector<std::string> paths;
  for (const ModelArguments& model : arguments.models_to_serve()) {
    TRY_ASSIGN(std::string path, find_model(model));
    paths.push_back(std::move(path));
  }
  return paths;
}

void say_what_is_served(const http::Server& server, const ServeArguments& arguments, const ModelHost& models) {
  for (const HostedModel& model : models.list()) remark("ibid: serving " + model.name);
  remark("ibid: on " + server.url());
  if (server.port() != 0 && !arguments.unix_socket.empty()) remark("ibid: on unix:" + arguments.unix_socket);
}

void flush_tiers(const ModelHost& models) {
  for (const HostedModel& model : models.list()) {
    if (model.engine == nullptr || model.engine->tier() == nullptr) continue;
    const Status status = model.engine->tier()->flush(KvTier::kEndingNs);
    if (!status.ok()) remark("ibid: not all keys and values of " + model.name + " are on disk: " + status.message());
  }
}

// The answers that are under way end, and no other begins.
void drain(http::Server& server, AnswerService& service, milliseconds limit) {
  server.stop_listening();
  service.stop_admitting();
  const size_t n_under_way = server.stats().n_exchanges;
  if (n_under_way > 0) {
    remark("ibid: ending; " + std::to_string(n_under_way) + " answers under way (again to end at once)");
  }
  if (!server.wait_until_quiet(limit)) {
    remark("ibid: " + std::to_string(server.stats().n_exchanges) + " answers are cut off");
    server.cancel_exchanges();
    server.wait_until_quiet(kLastWords);
  }
  server.stop();
  service.wait_until_quiet(kLastWords);
}

Result<int> run_serve(const ServeArguments& arguments) {
  forbid_core_dumps();
  TRY(make_room_for_connections(arguments.max_connections));
  TRY_ASSIGN(http::ServerOptions options, arguments.server_options());
  TRY_ASSIGN(const std::vector<std::string> paths, find_models(arguments));
  signal(SIGPIPE, SIG_IGN);  // a reader of the log that goes does not end the server
  TRY_ASSIGN(const std::unique_ptr<EndSignals> signals, EndSignals::take());
  TRY_ASSIGN(const std::unique_ptr<ModelHost> models,
             ModelHost::create(paths, make_loader(arguments), system_clock(), arguments.host_options()));
  AdmissionOptions admission = arguments.admission_options();
  admission.conversations.remark = [](const std::string& line) { remark("ibid: " + line); };
  AnswerService service(*models, system_clock(), admission);

  const auto facts = std::make_shared<ServerFacts>();
  facts->version = IBID_VERSION;
  const auto log = arguments.log ? std::make_shared<RequestLog>(STDERR_FILENO) : nullptr;
  options.on_record = [facts, log](const http::ExchangeRecord& record) {
    facts->metrics.add(record);
    if (log != nullptr) log->add(record);
  };
  TRY_ASSIGN(const std::unique_ptr<http::Server> server,
             http::Server::listen(options, make_routes(*facts, service, *models, system_clock()), error_body));
  facts->server = server.get();
  signals->set_file_to_remove(arguments.unix_socket);
  say_what_is_served(*server, arguments, *models);

  // The port answers already: /ready says what is still to come.
  const Result<std::shared_ptr<Engine>> first = models->get("");
  if (!first.ok()) return first.status();
  facts->readiness = Readiness::kReady;
  remark("ibid: ready");
  signals->wait();

  facts->readiness = Readiness::kDraining;
  drain(*server, service, *read_time(arguments.drain_timeout));
  flush_tiers(*models);
  return 0;
}

}  // namespace

}  // namespace ibid::serve

namespace ibid {

void add_serve(CLI::App& root, int& exit_code) {
  auto arguments = std::make_shared<serve::ServeArguments>();
  CLI::App* command = root.add_subcommand("serve", "models over HTTP, for programs that speak a known protocol");
  arguments->add(*command);
  command->callback([arguments, &exit_code] {
    const Result<int> status = serve::run_serve(*arguments);
    exit_code = status.ok() ? *status : report(status.status());
  });
}

}  // namespace ibid
