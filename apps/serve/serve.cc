// ibid serve: serves local models over HTTP.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "apps/chat/load_engine.h"
#include "apps/chat/recommended_sampling.h"
#include "apps/command_line/command.h"
#include "apps/models/model_catalog.h"
#include "apps/serve/serve_arguments.h"
#include "apps/sessions/session_files.h"
#include "apps/terminal/output.h"
#include "cache/tier/kv_tier.h"
#include "net/shared_server.h"
#include "runtime/audit/idle_audit.h"
#include "server/protocol/fault.h"
#include "server/request_log.h"
#include "server/routes.h"
#include "server/store/conversation_store.h"

namespace ibid::serve {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kCancelGrace{1000};  // time that cancelled answers get to send their last event
// Number of file descriptors for models, cache directories, listeners and closing connections.
constexpr size_t kOtherFiles = 128;

// Disables core dumps and debuggers of the same user, which could expose conversations.
void forbid_core_dumps() {
  prctl(PR_SET_DUMPABLE, 0);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
}

// Raises the limit of open files to the allowed maximum. kLimitExceeded, with advice, if that is too low for
// `n_connections` and the other files of the process.
Status make_room_for_connections(size_t n_connections) {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return {};
  if (files.rlim_cur < files.rlim_max) {
    rlimit raised = files;
    raised.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) files = raised;
  }
  const size_t wanted = n_connections + kOtherFiles;
  if (files.rlim_cur == RLIM_INFINITY || files.rlim_cur >= wanted) return {};
  const size_t possible = files.rlim_cur > kOtherFiles ? files.rlim_cur - kOtherFiles : 1;
  return {ErrorCode::kLimitExceeded, std::to_string(n_connections) + " connections need " + std::to_string(wanted) +
                                         " open files, but this process may have " + std::to_string(files.rlim_cur) +
                                         "; --max-connections " + std::to_string(possible) +
                                         ", or a higher limit (ulimit -n)"};
}

// Handles SIGTERM and SIGINT. The first signal starts a graceful shutdown. The second, or a signal before expect(),
// ends the process at once. At most one instance exists.
class EndSignals {
 public:
  // Blocks the signals in this and all later threads; a separate thread waits for them. REQUIRES: no other thread
  // exists yet.
  EndSignals() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGTERM);
    sigaddset(&signals_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals_, &mask_before_);
    thread_ = std::thread([this] { watch(); });
  }
  ~EndSignals() {
    {
      const std::lock_guard lock(mutex_);
      leaves_ = true;
    }
    // watch() receives the signal by sigwait(). NOLINTNEXTLINE(bugprone-bad-signal-to-kill-thread)
    pthread_kill(thread_.native_handle(), SIGTERM);
    thread_.join();
    pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  }
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;

  // After this call, the first signal makes wait() return true. file_to_remove: removed if the process ends at once;
  // may be empty.
  void expect(std::string file_to_remove) {
    const std::lock_guard lock(mutex_);
    file_to_remove_ = std::move(file_to_remove);
    is_expected_ = true;
  }
  // Waits for the first signal. Returns false if wake() was called first. REQUIRES: expect() was called.
  bool wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return has_come_ || is_woken_; });
    is_woken_ = false;
    return has_come_;
  }
  void wake() {
    const std::lock_guard lock(mutex_);
    is_woken_ = true;
    changed_.notify_all();
  }

 private:
  void watch() {
    for (int signal = 0; sigwait(&signals_, &signal) == 0;) {
      const std::lock_guard lock(mutex_);
      if (leaves_) return;
      if (has_come_ || !is_expected_) {
        if (!file_to_remove_.empty()) unlink(file_to_remove_.c_str());
        _exit(128 + signal);  // the status that shells report for a signal
      }
      has_come_ = true;
      changed_.notify_all();
    }
  }

  sigset_t signals_{}, mask_before_{};
  std::mutex mutex_;
  std::condition_variable changed_;
  // These members are guarded by mutex_:
  bool is_expected_ = false;
  bool has_come_ = false;
  bool is_woken_ = false;  // wake() was called since the last wait()
  bool leaves_ = false;
  std::string file_to_remove_;
  std::thread thread_;
};

// Returns the KV cache directory of a model; empty: no directory. Each directory belongs to one model at a time.
Result<std::string> cache_directory_of(const ServeArguments& arguments, const std::string& path, bool is_only_model) {
  if (!arguments.cache && arguments.cache_directory.empty()) return std::string();
  std::string directory = arguments.cache_directory;
  if (directory.empty()) {
    TRY_ASSIGN(directory, kv_cache_directory());
  }
  return is_only_model ? directory : directory + "/" + std::filesystem::path(path).filename().string();
}

// Opens the store, which is on the server that nodes share, or if that is null, in the cache directory itself. It is
// independent of the models.
Result<std::shared_ptr<ConversationStore>> open_store(const ServeArguments& arguments,
                                                      std::shared_ptr<net::SharedServer> server) {
  ConversationStore::Options options;
  options.server = std::move(server);
  TRY_ASSIGN(options.directory, cache_directory_of(arguments, "", true));
  options.budget_bytes = std::min(options.budget_bytes, EngineOptions().cache_directory_bytes / 8);
  options.remark = [](const std::string& line) { remark("ibid: " + line); };
  return std::shared_ptr(ConversationStore::open_or_in_memory(std::move(options)));
}

// Opens the server of keys and values that nodes share, which all engines use. Null: none was requested. One that
// cannot be reached is only reported on standard error.
Result<std::shared_ptr<net::SharedServer>> open_cache_server(const ServeArguments& arguments) {
  if (arguments.cache_server.empty()) {
    if (arguments.cache_server_key_file.empty()) return std::shared_ptr<net::SharedServer>();
    return {ErrorCode::kInvalidArgument, "--cache-key-file needs --cache-server"};
  }
  TRY_ASSIGN(auto server, net::SharedServer::open(arguments.cache_server, arguments.cache_server_key_file));
  const std::string name = server->connections().address().shown();
  server->connections().set_on_change([name](const std::string& reason) {
    remark(reason.empty() ? "ibid: the cache server " + name + " is used again"
                          : "ibid: the cache server " + name + " is not used until it answers: " + reason);
  });
  if (server->connections().try_now().ok()) remark("ibid: sharing keys, values and conversations through " + name);
  return server;
}

// Returns the function that creates the engines. An unusable cache directory is only reported on standard error.
// events: publishes the pages of the model at first_path; may point to null. The references outlive the function.
ModelHost::Loader make_loader(const ServeArguments& arguments, const std::string& first_path,
                              const std::unique_ptr<KvEventPublisher>& events) {
  return [&arguments, first_path, &events](const std::string& path) -> Result<std::shared_ptr<Engine>> {
    const bool is_only_model = arguments.models.size() <= 1;
    TRY_ASSIGN(const std::string directory, cache_directory_of(arguments, path, is_only_model));
    if (!directory.empty() && !is_only_model) {
      std::error_code error;
      std::filesystem::create_directories(std::filesystem::path(directory).parent_path(), error);
    }
    EngineOptions options = engine_options(arguments.running);
    options.cache_directory = directory;
    options.cache_write_bytes_per_s = *read_bytes(arguments.cache_write_rate);
    options.audit_share = *read_share(arguments.audit);
    options.kv_budget_bytes = *read_bytes(arguments.kv_budget);
    options.cache_server = arguments.cache_server;
    options.cache_key_file = arguments.cache_server_key_file;
    if (!arguments.pooling.empty()) options.pooling = arguments.pooling == "mean" ? Pooling::kMean : Pooling::kLast;
    TRY_ASSIGN(std::shared_ptr<Engine> engine, load_engine(path, arguments.running, options));
    if (!engine->state().tier_status().ok()) {
      remark("ibid: the cache of keys and values is not used: " + engine->state().tier_status().message());
    }
    if (IdleAudit* const audit = engine->state().audit(); audit != nullptr) {
      audit->report_to([](const std::string& line) { remark("ibid: " + line); });
    }
    if (events != nullptr && path == first_path) events->watch(engine->state().store());
    return engine;
  };
}

// Finds the models. A model can also be requested by the name typed on the command line, and by its known name.
Result<std::vector<ModelSource>> find_models(const ServeArguments& arguments) {
  std::vector<ModelSource> sources;
  for (const ModelArguments& model : arguments.models_to_serve()) {
    TRY_ASSIGN(std::string path, find_model(model));
    ModelSource source(path);
    source.recommended.sampler.seed = arguments.seed;
    if (!model.model.empty() && model.model.find('/') == std::string::npos) source.aliases.push_back(model.model);
    if (const KnownModel* known = known_model_of_file(path)) {
      source.aliases.emplace_back(known->name);
    }
    apply_recommended(path, source.recommended);
    sources.push_back(std::move(source));
  }
  return sources;
}

void say_what_is_served(const http::Server& server, const ServeArguments& arguments, const ModelHost& models) {
  for (const HostedModel& model : models.list()) remark("ibid: serving " + model.name);
  remark("ibid: on " + server.url());
  if (server.port() != 0 && !arguments.unix_socket.empty()) remark("ibid: on unix:" + arguments.unix_socket);
}

void flush_tiers(const ModelHost& models) {
  for (const HostedModel& model : models.list()) {
    if (model.engine == nullptr || model.engine->state().tier() == nullptr) continue;
    const Status status = model.engine->state().tier()->flush(KvTier::kEndingNs);
    if (!status.ok()) remark("ibid: not all keys and values of " + model.name + " are on disk: " + status.message());
  }
}

// Rejects new requests, waits for active answers up to `limit`, then cancels the rest.
void drain(http::Server& server, Service& service, milliseconds limit) {
  server.stop_listening();
  service.stop_admitting();
  const size_t n_under_way = server.stats().n_exchanges;
  if (n_under_way > 0) {
    remark("ibid: stopping; " + std::to_string(n_under_way) + " answers in progress (again to stop at once)");
  }
  if (!server.wait_until_quiet(limit)) {
    remark("ibid: " + std::to_string(server.stats().n_exchanges) + " answers are cut off");
    server.cancel_exchanges();
    server.wait_until_quiet(kCancelGrace);
  }
  server.stop();
  service.wait_until_quiet(kCancelGrace);
}

// Loads the first model on a separate thread, so that the port responds and signals are handled meanwhile. Calls
// signals.wake() when loading has ended.
class FirstModel {
 public:
  FirstModel(ModelHost& models, EndSignals& signals)
      : thread_([this, &models, &signals] {
          status_ = models.get("").status();
          is_over_ = true;
          signals.wake();
        }) {}
  ~FirstModel() { thread_.join(); }
  bool is_over() const { return is_over_; }
  // REQUIRES: is_over().
  const Status& status() const { return status_; }

 private:
  Status status_;
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

Result<int> run_serve(const ServeArguments& arguments) {
  forbid_core_dumps();
  TRY(make_room_for_connections(arguments.max_connections));
  TRY_ASSIGN(http::ServerOptions options, arguments.server_options());
  TRY_ASSIGN(std::vector<ModelSource> sources, find_models(arguments));
  signal(SIGPIPE, SIG_IGN);  // ignored, because a closed log pipe must not end the server
  EndSignals signals;
  TRY_ASSIGN(const std::shared_ptr<net::SharedServer> cache_server, open_cache_server(arguments));
  const auto say = [](const std::string& line) { remark("ibid: " + line); };
  std::unique_ptr<KvEventPublisher> events;
  ModelHostOptions host = arguments.host_options();
  host.remark = say;
  ModelHost::Loader loader = make_loader(arguments, sources.front().path, events);
  TRY_ASSIGN(const std::unique_ptr<ModelHost> models,
             ModelHost::create(std::move(sources), std::move(loader), system_clock(), host));
  if (!arguments.kv_events.empty()) {
    TRY_ASSIGN(events, KvEventPublisher::open(arguments.event_options(), system_clock()));
    say("KV events on " + events->endpoint() + " " + events->replay_endpoint());
  }
  AdmissionOptions admission = arguments.admission_options();
  admission.conversations.remark = say;
  TRY_ASSIGN(admission.conversations.store, open_store(arguments, cache_server));
  Service service(*models, system_clock(), admission);

  const auto facts = std::make_shared<ServerFacts>();
  facts->version = IBID_VERSION;
  facts->namespace_by_user = arguments.namespace_by_user;
  facts->allows_no_user = arguments.allow_no_user;
  facts->checks_model_names = arguments.check_model_names;
  facts->keeps_client_lines = arguments.keep_client_lines;
  facts->n_parallel = arguments.parallel;
  const auto log = arguments.log ? std::make_shared<RequestLog>(STDERR_FILENO) : nullptr;
  facts->metrics.set_log(log);
  facts->metrics.set_events(events.get());
  options.on_record = [facts, log](const http::ExchangeRecord& record) {
    facts->metrics.add(record);
    if (log != nullptr) log->add(record);
  };
  TRY_ASSIGN(const std::unique_ptr<http::Server> server,
             http::Server::listen(options, make_routes(*facts, service, *models, system_clock()), error_body));
  facts->server = server.get();
  signals.expect(arguments.unix_socket);
  say_what_is_served(*server, arguments, *models);

  FirstModel first(*models, signals);
  if (!signals.wait()) {
    TRY(first.status());
    facts->readiness = Readiness::kReady;
    remark("ibid: ready");
    signals.wait();
  }
  facts->readiness = Readiness::kDraining;
  drain(*server, service, *read_time(arguments.drain_timeout));
  if (!first.is_over()) _exit(0);  // end at once: loading cannot be interrupted, and nothing needs to be saved
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
