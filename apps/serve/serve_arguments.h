// The arguments of `ibid serve`, converted to the options of the server's parts.
#pragma once

#include <CLI/App.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/models/model_arguments.h"
#include "base/result.h"
#include "server/events/kv_event_publisher.h"
#include "server/http/server.h"
#include "server/service/model_host.h"
#include "server/service/service.h"

namespace ibid::serve {

struct ServeArguments {
  std::vector<std::string> models;  // model names as the user typed them; empty: the default model
  ModelArguments running;           // options of every model; running.model is not used
  std::string host = "127.0.0.1";
  uint16_t port = 8080;
  std::string unix_socket;
  std::string api_key_file;
  bool insecure = false;
  bool namespace_by_user = false, allow_no_user = false;
  bool check_model_names = false, keep_client_lines = false;
  std::optional<uint64_t> seed;  // seed of requests that set no seed
  std::string certificate_file, key_file;
  std::vector<std::string> allowed_hosts, allowed_origins;
  std::string keep_alive = "never";
  std::string memory_budget = "0", kv_budget = "0";
  std::string cache_directory;  // directory for keys and values; empty: no directory, unless `cache` is set
  std::string cache_write_rate = "0";
  std::string audit = "0%";  // share of the records read from the directory that are recomputed
  bool cache = false;
  std::string cache_server, cache_server_key_file;  // of keys and values that nodes share; empty: none
  std::string pooling;  // pooling of embeddings; empty: the pooling that each model's file states
  size_t parallel = 64, queue = 512, max_connections = 1024;
  std::string max_body = "64M";
  std::string drain_timeout = "30s", queue_timeout = "60s", total_timeout = "never";
  bool no_answer_guard = false, standard_schemas = false;
  bool log = false;
  std::string kv_events, kv_events_replay, kv_events_topic;  // kv_events empty: none
  bool kv_events_open = false, kv_events_private_tokens = false;

  // Declares the options. `this` must outlive the command.
  void add(CLI::App& command);

  // REQUIRES, for this and the next three functions: the arguments passed validation. Errors of server_options(): those
  // of read_api_keys().
  Result<http::ServerOptions> server_options() const;
  AdmissionOptions admission_options() const;
  ModelHostOptions host_options() const;
  KvEventOptions event_options() const;
  // Returns at least one model.
  std::vector<ModelArguments> models_to_serve() const;

 private:
  void add_cache_options(CLI::App& command);
  void add_access_options(CLI::App& command);
  void add_limits(CLI::App& command);
  void add_events(CLI::App& command);
  static void add_environment(CLI::App& command);
};

}  // namespace ibid::serve
