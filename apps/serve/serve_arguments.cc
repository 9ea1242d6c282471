#include "apps/serve/serve_arguments.h"

#include <CLI/CLI.hpp>
#include <cctype>
#include <string>
#include <utility>

#include "apps/command_line/command.h"
#include "apps/models/model_catalog.h"
#include "server/http/api_keys.h"

namespace ibid::serve {

namespace {

constexpr const char* kAccessGroup = "Access";
constexpr const char* kLimitsGroup = "Limits";
constexpr const char* kEventsGroup = "KV events, for routers";

// Returns -1 ms for "never".
std::chrono::milliseconds time_or_never(const std::string& text) {
  return text == "never" ? std::chrono::milliseconds(-1) : *read_time(text);
}

// Returns 0 ms for "never", which means no deadline.
std::chrono::milliseconds time_or_none(const std::string& text) {
  return text == "never" ? std::chrono::milliseconds(0) : *read_time(text);
}

CLI::Option* add_bytes(CLI::App& command, const std::string& name, std::string& text, const std::string& help) {
  return command.add_option(name, text, help)->type_name("BYTES")->check(amount_of_bytes())->capture_default_str();
}

CLI::Option* add_time(CLI::App& command, const std::string& name, std::string& text, const std::string& help) {
  return command.add_option(name, text, help)->type_name("TIME")->check(amount_of_time(true))->capture_default_str();
}

}  // namespace

void ServeArguments::add(CLI::App& command) {
  const auto take = [this](const std::vector<std::string>& given) {
    models.clear();
    for (const std::string& name : given) models.push_back(plain_text_argument(name));
  };
  command
      .add_option_function<std::vector<std::string>>(
          "-m,--model,MODEL", take,
          "a .gguf file, a directory with safetensors and config.json, or a known model's name; the first of several "
          "is loaded at once (default: " +
              std::string(default_model().name) + ")")
      ->expected(1, -1)
      ->type_name("MODEL")
      ->group(kCommonGroup);
  command
      .add_option("--host", host,
                  "the address to listen on, or several separated by commas; \"\" for none, with --unix")
      ->type_name("ADDRESS")
      ->envname("IBID_HOST")
      ->capture_default_str()
      ->group(kCommonGroup);
  command.add_option("--port", port, "the port; 0: any free one")
      ->type_name("N")
      ->check(whole_number(0, 65535))
      ->envname("IBID_PORT")
      ->capture_default_str()
      ->group(kCommonGroup);
  add_text_option(command, "--unix", unix_socket, "also listen on a Unix socket, for this user only")
      ->type_name("PATH")
      ->group(kCommonGroup);
  command.add_option("--seed", seed, "seed of answers whose request names none; default: a random one each")
      ->type_name("N")
      ->group(kCommonGroup);
  command
      .add_flag("--check-model-names", check_model_names,
                "refuse unknown names of models; otherwise a server's only model answers to every name")
      ->group(kCommonGroup);
  command
      .add_flag("--keep-client-lines", keep_client_lines,
                "keep lines of the system message that clients change with each request")
      ->group(kCommonGroup);
  command.add_flag("--log", log, "log each request as a line of JSON on standard error, without texts")
      ->group(kCommonGroup);
  add_access_options(command);
  add_limits(command);
  add_events(command);
  running.add_running(command);
  add_cache_options(command);
  command.add_option("--pooling", pooling, "pooling of embeddings, for models whose files do not name it")
      ->type_name("mean|last")
      ->check(one_of({"mean", "last"}))
      ->group(kRunningGroup);
  running.add_fetch(command);
  add_environment(command);
}

void ServeArguments::add_cache_options(CLI::App& command) {
  add_text_option(command, "--cache-dir", cache_directory, "keep keys and values there, to resume after a restart")
      ->type_name("DIR")
      ->group(kRunningGroup);
  command.add_flag("--cache", cache, "keep keys and values in this user's cache folder")->group(kRunningGroup);
  add_bytes(command, "--cache-write-rate", cache_write_rate,
            "bytes a second written to the cache directory while no processor is idle; 0: writing waits")
      ->group(kRunningGroup);
  command
      .add_option("--audit", audit,
                  "share of what is read from the cache that is recomputed while a processor is idle; wrong pages are "
                  "removed")
      ->type_name("SHARE")
      ->check(percentage())
      ->capture_default_str()
      ->group(kRunningGroup);
  add_text_option(command, "--cache-server", cache_server,
                  "share keys, values and conversations with other servers through a Redis or Valkey: "
                  "redis://[USER:PASSWORD@]HOST, "
                  "rediss://... (TLS) or unix:PATH")
      ->type_name("URL")
      ->group(kRunningGroup);
  add_text_option(
      command, "--cache-key-file", cache_server_key_file,
      "encrypt what the cache server gets with the key in this file; without one it must be on this machine")
      ->type_name("FILE")
      ->group(kRunningGroup);
}

// Lets each option be set by the environment: "--max-body" by IBID_SERVE_MAX_BODY.
void ServeArguments::add_environment(CLI::App& command) {
  for (CLI::Option* option : command.get_options([](const CLI::Option* one) { return !one->get_lnames().empty(); })) {
    std::string name = option->get_lnames().front();
    if (!option->get_envname().empty() || name == "help" || name == "config") continue;
    for (char& c : name) c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    option->envname("IBID_SERVE_" + name);
  }
}

void ServeArguments::add_access_options(CLI::App& command) {
  add_text_option(
      command, "--api-key-file", api_key_file,
      "accepted API keys: one per line, NAME=KEY for keys that share a cache; \"namespaces\" after a key lets its "
      "requests name one by x-ibid-namespace; or IBID_API_KEY")
      ->type_name("FILE")
      ->group(kAccessGroup);
  command.add_flag("--insecure", insecure, "let other machines connect without a key")->group(kAccessGroup);
  command
      .add_flag("--namespace-by-user", namespace_by_user,
                "users of one key share no cache and see nothing of each other: \"user\" in the body or the query, or "
                "the header x-user-id; a request without one is refused")
      ->group(kAccessGroup);
  command
      .add_flag("--allow-no-user", allow_no_user,
                "with --namespace-by-user: requests without a user share the namespace of their key")
      ->group(kAccessGroup);
  add_text_option(command, "--cert", certificate_file, "TLS with this certificate (PEM, followed by its chain)")
      ->type_name("FILE")
      ->group(kAccessGroup);
  add_text_option(command, "--key", key_file, "the private key of --cert")->type_name("FILE")->group(kAccessGroup);
  add_text_list(command, "--allow-host", allowed_hosts, "a name that the server is called by; \"*\": any")
      ->type_name("NAME")
      ->group(kAccessGroup);
  add_text_list(command, "--allow-origin", allowed_origins, "an origin whose pages may ask; \"*\": any")
      ->type_name("ORIGIN")
      ->group(kAccessGroup);
}

void ServeArguments::add_limits(CLI::App& command) {
  command.add_option("--parallel", parallel, "answers at a time; further requests wait")
      ->type_name("N")
      ->check(whole_number(1, 4096))
      ->capture_default_str()
      ->group(kLimitsGroup);
  command.add_option("--queue", queue, "requests that may wait; further ones are refused")
      ->type_name("N")
      ->check(whole_number(0, 1'000'000))
      ->capture_default_str()
      ->group(kLimitsGroup);
  command.add_option("--max-connections", max_connections, "clients at a time")
      ->type_name("N")
      ->check(whole_number(1, 1'000'000))
      ->capture_default_str()
      ->group(kLimitsGroup);
  add_bytes(command, "--max-body", max_body, "largest body of a request")->group(kLimitsGroup);
  add_bytes(command, "--memory-budget", memory_budget, "memory for all models and their keys and values; 0: no limit")
      ->group(kLimitsGroup);
  add_bytes(command, "--kv-budget", kv_budget, "memory for a model's keys and values; 0: two contexts, at least 256M")
      ->group(kLimitsGroup);
  add_time(command, "--keep-alive", keep_alive, "how long an unused model stays loaded")->group(kLimitsGroup);
  add_time(command, "--queue-timeout", queue_timeout, "longest wait of a request")->group(kLimitsGroup);
  add_time(command, "--total-timeout", total_timeout, "longest time of a request, in all")->group(kLimitsGroup);
  command
      .add_flag("--no-answer-guard", no_answer_guard,
                "answers without a maximum length may fill the context and repeat themselves")
      ->group(kLimitsGroup);
  command
      .add_flag("--standard-schemas", standard_schemas,
                "follow JSON Schema strictly: objects may have properties that the schema does not list")
      ->group(kLimitsGroup);
  command.add_option("--drain-timeout", drain_timeout, "time for answers in progress when the server stops")
      ->type_name("TIME")
      ->check(amount_of_time(false))
      ->capture_default_str()
      ->group(kLimitsGroup);
}

void ServeArguments::add_events(CLI::App& command) {
  add_text_option(command, "--kv-events", kv_events,
                  "publish by ZeroMQ which blocks of the first model are cached: ipc:///PATH or tcp://127.0.0.1:PORT")
      ->type_name("ENDPOINT")
      ->group(kEventsGroup);
  add_text_option(command, "--kv-events-replay", kv_events_replay, "repeat batches and send snapshots on request there")
      ->type_name("ENDPOINT")
      ->group(kEventsGroup);
  add_text_option(command, "--kv-events-topic", kv_events_topic, "first part of each message; llm-d needs kv@POD@MODEL")
      ->type_name("TEXT")
      ->group(kEventsGroup);
  command.add_flag("--kv-events-open", kv_events_open, "let other machines read the events, which are not encrypted")
      ->group(kEventsGroup);
  command
      .add_flag("--kv-events-private-tokens", kv_events_private_tokens,
                "send the tokens of blocks that belong to an API key, a user or a salt; otherwise only their hashes")
      ->group(kEventsGroup);
}

Result<http::ServerOptions> ServeArguments::server_options() const {
  http::ServerOptions options;
  options.address = host;
  options.port = port;
  options.unix_socket = unix_socket;
  options.certificate_file = certificate_file;
  options.key_file = key_file;
  TRY_ASSIGN(options.api_keys, read_api_keys(api_key_file));
  options.insecure = insecure;
  options.allowed_hosts = allowed_hosts;
  options.allowed_origins = allowed_origins;
  options.max_connections = max_connections;
  options.max_body_bytes = *read_bytes(max_body);
  return options;
}

AdmissionOptions ServeArguments::admission_options() const {
  AdmissionOptions options;
  options.max_running = parallel;
  options.max_waiting = queue;
  options.guards_answers = !no_answer_guard;
  options.standard_schemas = standard_schemas;
  options.queue_timeout = time_or_none(queue_timeout);
  options.total_timeout = time_or_none(total_timeout);
  return options;
}

ModelHostOptions ServeArguments::host_options() const {
  // Load the model after the port is opened, so that clients can poll /ready.
  return {.memory_budget_bytes = *read_bytes(memory_budget),
          .keep_alive = time_or_never(keep_alive),
          .load_at_once = false};
}

KvEventOptions ServeArguments::event_options() const {
  return {.endpoint = kv_events,
          .replay_endpoint = kv_events_replay,
          .topic = kv_events_topic,
          .may_leave_machine = kv_events_open,
          .private_tokens = kv_events_private_tokens};
}

std::vector<ModelArguments> ServeArguments::models_to_serve() const {
  std::vector<ModelArguments> all;
  for (const std::string& name : models) {
    all.push_back(running);
    all.back().model = name;
  }
  if (all.empty()) all.push_back(running);
  return all;
}

}  // namespace ibid::serve
