#include "apps/bench/serve_bench.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "apps/models/model_catalog.h"
#include "apps/terminal/terminal_text.h"
#include "base/parallel.h"
#include "base/result.h"
#include "bench/lab/report.h"

namespace ibid {

namespace {

// OwnServer: runs this program as `ibid serve` with one model on a free local port for the lifetime of the object. The
// server ends when this process ends, in whatever way.
class OwnServer {
 public:
  // arguments: for `ibid serve`, without the port. Returns when the model is loaded. Error: kIo, with the last line of
  // the server's output.
  static Result<std::unique_ptr<OwnServer>> start(const std::vector<std::string>& arguments);
  ~OwnServer();
  OwnServer(const OwnServer&) = delete;
  OwnServer& operator=(const OwnServer&) = delete;

  const std::string& url() const { return url_; }

 private:
  OwnServer(pid_t process, int errors) : process_(process), errors_(errors) {}
  // Reads the server's output until the server is ready. Returns false if the server ended; output_ then has the
  // output.
  bool await_ready();

  pid_t process_;
  int errors_;
  std::string output_;
  std::string url_;
  std::thread reader_;  // reads the output after await_ready(), so that the pipe does not fill
};

constexpr const char* kThisProgram = "/proc/self/exe";
constexpr std::string_view kAddress = "http://127.0.0.1:";

// Reads the next available bytes. Returns an empty string at the end of the file.
std::string read_some(int fd) {
  char bytes[4096];
  for (;;) {
    const ssize_t n = read(fd, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) continue;
    return n > 0 ? std::string(bytes, static_cast<size_t>(n)) : std::string();
  }
}

std::string last_line(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text.substr(text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1);
}

Result<std::unique_ptr<OwnServer>> OwnServer::start(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {"ibid", "serve"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  words.insert(words.end(), {"--port", "0", "--config", ""});
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Status(ErrorCode::kIo, std::string("pipe: ") + std::strerror(errno));
  std::vector<char*> environment;  // without IBID_API_KEY: a server with a key would refuse requests of this process
  for (char** each = environ; *each != nullptr; ++each) {
    if (!std::string_view(*each).starts_with("IBID_API_KEY=")) environment.push_back(*each);
  }
  environment.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t process = fork();
  if (process == 0) {
    // Make only async-signal-safe calls between fork() and exec().
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(1);
    dup2(ends[1], STDERR_FILENO);
    execve(kThisProgram, pointers.data(), environment.data());
    _exit(127);
  }
  close(ends[1]);
  if (process < 0) {
    close(ends[0]);
    return Status(ErrorCode::kIo, std::string("the server cannot be started: ") + std::strerror(errno));
  }
  std::unique_ptr<OwnServer> server(new OwnServer(process, ends[0]));
  if (!server->await_ready()) return Status(ErrorCode::kIo, "the server did not start: " + last_line(server->output_));
  server->reader_ = std::thread([fd = server->errors_] {
    while (!read_some(fd).empty()) {
    }
  });
  return server;
}

bool OwnServer::await_ready() {
  while (output_.find("\nibid: ready\n") == std::string::npos) {
    const std::string more = read_some(errors_);
    if (more.empty()) return false;
    output_ += more;
  }
  const size_t at = output_.find(kAddress);
  if (at == std::string::npos) return false;
  url_ = output_.substr(at, output_.find_first_not_of("0123456789", at + kAddress.size()) - at);
  return true;
}

OwnServer::~OwnServer() {
  kill(process_, SIGTERM);
  if (reader_.joinable()) reader_.join();
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
  close(errors_);
}

void to_stdout(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

// Returns value(sample), if it is positive, for each answered sample for which wanted(sample) is true.
template <typename Wanted, typename Value>
std::vector<double> values_of(const LoadResult& result, const Wanted& wanted, const Value& value) {
  std::vector<double> values;
  for (const LoadSample& sample : result.samples) {
    if (sample.failure.empty() && wanted(sample) && value(sample) > 0) values.push_back(value(sample));
  }
  return values;
}

bool all(const LoadSample&) { return true; }
bool first_round(const LoadSample& sample) { return sample.round == 0; }
bool later_round(const LoadSample& sample) { return sample.round > 0; }
double first_ms(const LoadSample& sample) { return sample.first_ms; }
double token_ms(const LoadSample& sample) { return sample.token_ms; }

struct Sums {
  size_t n_answered = 0, n_prompt = 0, n_cached = 0, n_completion_tokens = 0;
  size_t min_answer_tokens = SIZE_MAX, max_answer_tokens = 0;
  bool has_prompt = true, has_cached = true;
};

Sums sums_of(const LoadResult& result) {
  Sums sums;
  for (const LoadSample& sample : result.samples) {
    if (!sample.failure.empty()) continue;
    ++sums.n_answered;
    sums.has_prompt = sums.has_prompt && sample.n_prompt;
    sums.has_cached = sums.has_cached && sample.n_cached;
    sums.n_prompt += sample.n_prompt.value_or(0);
    sums.n_cached += sample.n_cached.value_or(0);
    sums.n_completion_tokens += sample.n_completion_tokens;
    sums.min_answer_tokens = std::min(sums.min_answer_tokens, sample.n_completion_tokens);
    sums.max_answer_tokens = std::max(sums.max_answer_tokens, sample.n_completion_tokens);
  }
  return sums;
}

std::string row_of(const char* name, const std::vector<double>& values) {
  if (values.empty()) return "";
  return formatted("%-24s %9.1f %9.1f %9.1f\n", name, at_share(values, 0.5), at_share(values, 0.9),
                   at_share(values, 0.99));
}

std::string shape_lines(const LoadShape& shape) {
  return formatted("%zu users of %zu rounds each; a user starts %.3g s after the previous one and thinks for %.3g s\n",
                   shape.users, shape.rounds, shape.stagger_seconds, shape.think_seconds) +
         formatted("%zu words shared by all, %zu of each user's own, %zu a question; answers of %zu tokens\n",
                   shape.system_words, shape.history_words, shape.question_words, shape.answer_tokens);
}

Figure figure_of(const char* what, const LoadShape& shape, Spread value) {
  Figure figure;
  figure.kind = find_figure_kind(what);
  figure.at = {shape.users, shape.rounds};
  figure.value = value;
  return figure;
}

void add_times(const std::string& what, const LoadShape& shape, const std::vector<double>& values,
               std::vector<Figure>& figures) {
  if (values.empty()) return;
  figures.push_back(figure_of(what.c_str(), shape, spread_of(values)));
  for (const auto& [suffix, share] : {std::pair("_p90", 0.9), std::pair("_p99", 0.99)}) {
    const double value = at_share(values, share);
    figures.push_back(figure_of((what + suffix).c_str(), shape, {value, value, value}));
  }
}

// The server to be measured, and its model.
struct Target {
  std::unique_ptr<OwnServer> own;
  ServerAddress address;
  ServedModel model;
};

Result<Target> find_target(const ServeBenchArguments& arguments, const ModelArguments& model) {
  Target target;
  if (arguments.url.empty()) {
    TRY_ASSIGN(const std::string path, resolve_model(model.model));
    std::vector<std::string> words = {path, "--kv", model.kv, "--numerics", model.numerics};
    words.insert(words.end(), {"--threads", std::to_string(model.n_threads)});
    if (model.context > 0) words.insert(words.end(), {"--context", std::to_string(model.context)});
    words.insert(words.end(), {"--kv-budget", arguments.kv_budget});
    TRY_ASSIGN(target.own, OwnServer::start(words));
    TRY_ASSIGN(target.address, parse_server_address(target.own->url()));
  } else {
    TRY_ASSIGN(target.address, parse_server_address(arguments.url));
    TRY_ASSIGN(target.address.key, read_client_key(arguments.api_key_file));
  }
  const ChatServer server(target.address);
  TRY_ASSIGN(const std::vector<ServedModel> models, server.models());
  for (const ServedModel& each : models) {
    const bool is_wanted = target.own != nullptr || model.model.empty() || each.name == model.model;
    if (is_wanted && target.model.name.empty()) target.model = each;
  }
  // A server may know a model that it does not list.
  if (target.model.name.empty()) target.model.name = model.model;
  return target;
}

}  // namespace

bool is_this_machine(const ServerAddress& address) {
  if (!address.unix_socket.empty()) return true;
  const std::string host = address.base.substr(address.base.find("://") + 3);
  return host.starts_with("127.") || host.starts_with("localhost") || host.starts_with("[::1]");
}

std::vector<Figure> figures_of(const LoadResult& result, const LoadShape& shape) {
  const Sums sums = sums_of(result);
  std::vector<Figure> figures;
  add_times("serve_first", shape, values_of(result, all, first_ms), figures);
  add_times("serve_later", shape, values_of(result, later_round, first_ms), figures);
  add_times("serve_token", shape, values_of(result, all, token_ms), figures);
  const auto add = [&](const char* what, double value) {
    figures.push_back(figure_of(what, shape, {value, value, value}));
  };
  if (result.wall_seconds > 0) add("serve_rate", static_cast<double>(sums.n_completion_tokens) / result.wall_seconds);
  if (sums.has_prompt) add("serve_prompt", static_cast<double>(sums.n_prompt));
  if (sums.has_cached) add("serve_cached", static_cast<double>(sums.n_cached));
  if (sums.n_answered > 0) {
    add("serve_said_least", static_cast<double>(sums.min_answer_tokens));
    add("serve_said_most", static_cast<double>(sums.max_answer_tokens));
  }
  add("serve_failed", static_cast<double>(result.samples.size() - sums.n_answered));
  return figures;
}

std::string table_of(const LoadResult& result, const LoadShape& shape) {
  const Sums sums = sums_of(result);
  std::string text = formatted("%-24s %9s %9s %9s\n", "", "median", "p90", "p99");
  text += row_of("first token, ms", values_of(result, all, first_ms));
  if (shape.rounds > 1) {
    text += row_of("  of first rounds", values_of(result, first_round, first_ms));
    text += row_of("  of later rounds", values_of(result, later_round, first_ms));
  }
  text += row_of("time per token, ms", values_of(result, all, token_ms));
  const char* counted = result.server_reports_counts ? "tokens" : "pieces of text (the server counts no tokens)";
  if (sums.n_answered > 0) {
    text +=
        formatted("%-24s %zu %s in %.1f s: %.1f per second\n", "generated in total", sums.n_completion_tokens, counted,
                  result.wall_seconds, static_cast<double>(sums.n_completion_tokens) / result.wall_seconds);
    text += formatted("%-24s %zu to %zu\n", "of each answer", sums.min_answer_tokens, sums.max_answer_tokens);
  }
  text += sums.has_prompt ? formatted("%-24s %zu\n", "prompt tokens", sums.n_prompt)
                          : formatted("%-24s not reported by the server\n", "prompt tokens");
  text += sums.has_cached && sums.n_prompt > 0
              ? formatted("%-24s %zu, %.1f %%\n", "  of them cached", sums.n_cached,
                          100 * static_cast<double>(sums.n_cached) / static_cast<double>(sums.n_prompt))
              : formatted("%-24s not reported by the server\n", "  of them cached");
  text += formatted("%-24s %zu of %zu\n", "failed requests", result.samples.size() - sums.n_answered,
                    result.samples.size());
  std::map<std::string, size_t> reasons;
  for (const LoadSample& sample : result.samples) {
    if (!sample.failure.empty()) ++reasons[one_line(sample.failure)];
  }
  for (const auto& [reason, n] : reasons) text += "  " + std::to_string(n) + " times: " + reason + "\n";
  return text;
}

std::string request_lines(const LoadResult& result, const std::string& engine) {
  std::string text;
  for (const LoadSample& sample : result.samples) {
    Json line = {{"engine", engine},
                 {"what", "serve_request"},
                 {"user", sample.user + 1},
                 {"round", sample.round + 1},
                 {"start_s", sample.start_s},
                 {"first_ms", sample.first_ms},
                 {"total_ms", sample.total_ms},
                 {"token_ms", sample.token_ms},
                 {"n_completion_tokens", sample.n_completion_tokens}};
    if (sample.n_prompt) line["n_prompt"] = *sample.n_prompt;
    if (sample.n_cached) line["n_cached"] = *sample.n_cached;
    if (!sample.failure.empty()) line["failure"] = sample.failure;
    text += json_to_string(line) + "\n";
  }
  return text;
}

Status run_serve_bench(const ServeBenchArguments& arguments, const ModelArguments& model, BenchSetup setup,
                       const ServeBenchOutput& output) {
  TRY_ASSIGN(const Target target, find_target(arguments, model));
  const ChatServer server(target.address);
  const LoadShape& shape = arguments.shape;
  if (!arguments.engine.empty()) setup.engine = arguments.engine;
  if (arguments.engine.empty() && target.own == nullptr) {
    setup.engine = target.model.owner.empty() ? "server" : one_line(target.model.owner);
  }
  if (setup.model.empty()) setup.model = one_line(target.model.name);
  std::string text =
      setup.engine + ", " + setup.model + " at " + server.name() + "\n" + setup.machine + "\n" + shape_lines(shape);
  if (is_this_machine(target.address)) {
    text += "client and server share the " + std::to_string(available_cpus()) +
            " CPUs of this machine: the client's share is missing from the server\n";
  }
  if (!output.json) to_stdout(text + "\n");
  const size_t n_all = shape.users * shape.rounds;
  size_t n_done = 0;
  const bool shows_progress = isatty(STDERR_FILENO) == 1;
  const LoadResult result = run_load(server, target.model, shape, [&](const LoadSample&) {
    if (!shows_progress) return;
    std::fprintf(stderr, "%s%zu of %zu requests", n_done == 0 ? "ibid: " : "\ribid: ", n_done + 1, n_all);
    if (++n_done == n_all) std::fputc('\n', stderr);
  });
  const std::vector<Figure> figures = figures_of(result, shape);
  if (output.json) {
    for (const Figure& figure : figures) to_stdout(json_line(setup, figure, {}) + "\n");
  } else {
    to_stdout(table_of(result, shape));
  }
  if (!arguments.requests.empty()) TRY(write_public_file(arguments.requests, request_lines(result, setup.engine)));
  const auto failed = [](const LoadSample& sample) { return !sample.failure.empty(); };
  if (std::all_of(result.samples.begin(), result.samples.end(), failed)) {
    return {ErrorCode::kIo, "no request was answered: " + result.samples.front().failure};
  }
  return output.csv.empty() ? Status() : append_to_csv(system_file_ops(), output.csv, setup, figures);
}

}  // namespace ibid
