// ibid bench: measures the speed of a model, and compares it with the peak rates of this machine and with other
// engines.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <fstream>
#include <memory>
#include <tuple>
#include <utility>

#include "apps/bench/bench_run.h"
#include "apps/chat/load_engine.h"
#include "apps/command_line/command.h"
#include "apps/terminal/terminal_text.h"
#include "base/clock.h"
#include "base/text.h"
#include "bench/lab/turn_curve.h"
#include "kernels/ops/dispatch.h"

namespace ibid {

namespace {

std::string numbers_text(const std::vector<size_t>& numbers) {
  std::string text;
  for (const size_t n : numbers) text += (text.empty() ? "" : ",") + std::to_string(n);
  return text;
}

// Returns the command that repeats the measurement, without local paths.
std::string command_of(const BenchArguments& arguments, const BenchSetup& setup) {
  std::string command = "ibid bench " + setup.model + " --what " + joined(arguments.what, ",") + " --threads " +
                        std::to_string(setup.n_threads) + " --kv " + setup.kv + " --numerics " + setup.numerics;
  command += " --rounds " + std::to_string(arguments.rounds) + " --lengths " + numbers_text(arguments.lengths) +
             " --depths " + numbers_text(arguments.depths);
  if (arguments.wants("turns")) command += " --conversations " + std::to_string(arguments.conversations);
  if (!arguments.report.empty()) command += " --histories " + numbers_text(arguments.histories) + " --report FILE";
  return command;
}

std::string machine_name() {
  std::string name = "unknown processor";
  std::ifstream cpus("/proc/cpuinfo");
  for (std::string line; std::getline(cpus, line);) {
    if (!line.starts_with("model name")) continue;
    name = line.substr(line.find(':') + 2);
    break;
  }
  return name + ", " + std::to_string(available_cpus()) + " CPUs";
}

std::string today() {
  const std::time_t now = static_cast<std::time_t>(system_clock().unix_ns() / 1'000'000'000);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &utc);
  return text;
}

BenchSetup setup_of(const BenchArguments& arguments, const std::string& path, Isa isa) {
  BenchSetup setup;
  setup.model = path.substr(path.find_last_not_of('/') == std::string::npos ? 0 : path.rfind('/') + 1);
  setup.machine = machine_name();
  setup.isa = isa_name(isa);
  setup.kv = arguments.model.kv;
  setup.numerics = arguments.model.numerics;
  setup.n_threads = arguments.model.n_threads;
  setup.rounds = arguments.rounds;
  setup.commit = arguments.commit;
  setup.date = today();
  setup.command = command_of(arguments, setup);
  return setup;
}

std::string with_point(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

std::string command_of_serve(const BenchArguments& arguments, const BenchSetup& setup) {
  const LoadShape& shape = arguments.serve.shape;
  std::string command = "ibid bench " + setup.model + " --what serve";
  if (arguments.serve.url.empty()) {
    command += " --threads " + std::to_string(setup.n_threads) + " --kv " + setup.kv + " --numerics " + setup.numerics;
    if (arguments.serve.kv_budget != "0") command += " --kv-budget " + arguments.serve.kv_budget;
  } else {
    command += " --url URL";
  }
  return command + " --users " + std::to_string(shape.users) + " --rounds " + std::to_string(shape.rounds) +
         " --system-words " + std::to_string(shape.system_words) + " --history-words " +
         std::to_string(shape.history_words) + " --question-words " + std::to_string(shape.question_words) +
         " --answer-tokens " + std::to_string(shape.answer_tokens) + " --think " + with_point(shape.think_seconds) +
         " --stagger " + with_point(shape.stagger_seconds) + " --seed " + std::to_string(shape.seed);
}

// Benchmarks a server. No model runs in this process.
Status run_load_bench(BenchArguments arguments) {
  const bool is_own = arguments.serve.url.empty();
  if (is_own && arguments.model.n_threads == 0) arguments.model.n_threads = available_cpus();
  arguments.serve.shape.rounds = arguments.rounds;
  std::string path = arguments.model.model;
  if (is_own) {
    TRY_ASSIGN(path, find_model(arguments.model));
  }
  TRY_ASSIGN(const Isa isa, active_isa());
  BenchSetup setup = setup_of(arguments, path, isa);
  if (!is_own) setup.kv = setup.numerics = setup.isa = "";
  setup.command = command_of_serve(arguments, setup);
  return run_serve_bench(arguments.serve, arguments.model, std::move(setup), {arguments.json, arguments.csv});
}

Status run_bench(BenchArguments arguments) {
  if (arguments.what == std::vector<std::string>{"serve"}) return run_load_bench(std::move(arguments));
  FileOps& files = system_file_ops();
  std::vector<Rival> rivals;
  if (!arguments.against.empty()) {
    TRY_ASSIGN(rivals, read_rival_file(files, arguments.against));
  }
  if (arguments.model.n_threads == 0) arguments.model.n_threads = available_cpus();
  TRY_ASSIGN(const std::string path, find_model(arguments.model));
  TRY_ASSIGN(const Isa isa, active_isa());
  BenchRun run(arguments, setup_of(arguments, path, isa), std::move(rivals));
  TRY(run.load(path));
  TRY(run.rates());
  if (arguments.wants("turns")) TRY(run.turns());
  if (!arguments.report.empty()) TRY(run.curve());
  return run.finish(files);
}

constexpr const char* kLoadGroup = "With --what serve";

void add_load(CLI::App& command, BenchArguments& arguments) {
  ServeBenchArguments& serve = arguments.serve;
  LoadShape& shape = serve.shape;
  const auto add_count = [&](const char* name, size_t& count, uint64_t least, uint64_t most, const char* help) {
    command.add_option(name, count, help)
        ->type_name("N")
        ->check(whole_number(least, most))
        ->capture_default_str()
        ->group(kLoadGroup);
  };
  CLI::Option* url = add_text_option(command, "--url", serve.url,
                                     "a running server: `ibid serve` or another with OpenAI chat completions");
  url->type_name("URL")->group(kLoadGroup);
  add_text_option(command, "--api-key-file", serve.api_key_file,
                  "the server's key: the first of the file, or IBID_API_KEY")
      ->type_name("FILE")
      ->needs(url)
      ->group(kLoadGroup);
  add_text_option(command, "--engine", serve.engine, "name of the engine in the rows")
      ->type_name("NAME")
      ->needs(url)
      ->group(kLoadGroup);
  command
      .add_option("--kv-budget", serve.kv_budget,
                  "memory for keys and values, without --url; 0: two contexts, at least 256M, so many users wait")
      ->type_name("BYTES")
      ->check(amount_of_bytes())
      ->excludes(url)
      ->capture_default_str()
      ->group(kLoadGroup);
  add_count("--users", shape.users, 1, 256, "conversations at once");
  add_count("--system-words", shape.system_words, 0, 1'000'000, "words of the system message, which all users share");
  add_count("--history-words", shape.history_words, 0, 1'000'000,
            "words of each user's history before the first question");
  add_count("--question-words", shape.question_words, 1, 1'000'000, "of a question");
  add_count("--answer-tokens", shape.answer_tokens, 1, 1'000'000,
            "tokens of an answer, if the server can enforce this number");
  for (auto [name, seconds, help] :
       {std::tuple("--think", &shape.think_seconds, "seconds between an answer and the next question"),
        std::tuple("--stagger", &shape.stagger_seconds, "seconds between the starts of two users")}) {
    command.add_option(name, *seconds, help)
        ->type_name("SECONDS")
        ->check(CLI::Range(0.0, 3600.0))
        ->capture_default_str()
        ->group(kLoadGroup);
  }
  command
      .add_option("--end-token", shape.end_token,
                  "the id of the token that ends an answer, for a server that does not support ignore_eos")
      ->type_name("ID")
      ->needs(url)
      ->group(kLoadGroup);
  command.add_option("--seed", shape.seed, "seed of the words that users send")
      ->type_name("N")
      ->capture_default_str()
      ->group(kLoadGroup);
  add_text_option(command, "--requests", serve.requests,
                  "a file of JSON lines, one for each request; bench/draw.py draws them")
      ->type_name("FILE")
      ->group(kLoadGroup);
}

}  // namespace

void add_bench(CLI::App& root, int& exit_code) {
  auto arguments = std::make_shared<BenchArguments>();
  CLI::App* command = root.add_subcommand("bench", "speed of a model, in per cent of the machine's peak");
  arguments->model.add_model(*command, false);
  arguments->model.add_running(*command);
  arguments->model.add_fetch(*command);
  command
      ->add_option("--what", arguments->what,
                   "all, or some of prefill, decode, turns (comma-separated); load: only how a model is loaded; serve: "
                   "several users load a server")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"all", "load", "prefill", "decode", "turns", "serve"}));
  command->add_option("--lengths", arguments->lengths, "new tokens of the prefills")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--depths", arguments->depths, "tokens before decode and before 44-token turns")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      ->add_option("--rounds", arguments->rounds,
                   "minimum repetitions; medians are reported; for serve: questions of each user")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--conversations", arguments->conversations, "growing conversations; medians are reported; 0: none")
      ->check(CLI::Range(0, 100))
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "one JSON object per line");
  command->add_option("--against", arguments->against, "a file of other engines' JSON lines, to compare row by row");
  CLI::Option* commit = command->add_option("--commit", arguments->commit, "name of this build in --csv and --report");
  command->add_option("--csv", arguments->csv, "a results file to append to")->needs(commit);
  command
      ->add_option(
          "--report", arguments->report,
          "write the time to the first token by length of the history, with reuse, without and from disk, as JSON "
          "lines (.jsonl); bench/draw.py draws them")
      ->check([](const std::string& path) {
        return is_report_path(path) ? std::string() : path + " does not end in .jsonl";
      });
  command->add_option("--histories", arguments->histories, "tokens of history of --report")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  add_load(*command, *arguments);
  command->callback([arguments, &exit_code] {
    const auto is_serve = [](const std::string& part) { return part == "serve"; };
    const bool serves = std::any_of(arguments->what.begin(), arguments->what.end(), is_serve);
    if (serves && arguments->what.size() > 1) throw CLI::ValidationError("--what", "serve must be alone");
    if (!serves && !arguments->serve.url.empty()) throw CLI::ValidationError("--url", "needs --what serve");
    if (const Status status = run_bench(*arguments); !status.ok()) exit_code = report(status);
  });
}

}  // namespace ibid
