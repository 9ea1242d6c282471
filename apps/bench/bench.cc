// ibid bench: what a model does on this machine, beside what the machine can do and what others do.
#include <CLI/CLI.hpp>
#include <ctime>
#include <fstream>
#include <memory>
#include <utility>

#include "apps/bench/bench_run.h"
#include "apps/command_line/command.h"
#include "apps/models/model_catalog.h"
#include "base/clock.h"
#include "bench/lab/turn_curve_report.h"
#include "kernels/dispatch.h"

namespace ibid {

namespace {

std::string joined(const std::vector<size_t>& numbers) {
  std::string text;
  for (const size_t n : numbers) text += (text.empty() ? "" : ",") + std::to_string(n);
  return text;
}

// The command that gives these figures again, without the paths of this machine.
std::string command_of(const BenchArguments& arguments, const BenchSetup& setup) {
  std::string what;
  for (const std::string& part : arguments.what) what += (what.empty() ? "" : ",") + part;
  std::string command = "ibid bench " + setup.model + " --what " + what + " --threads " +
                        std::to_string(setup.n_threads) + " --kv " + setup.kv + " --numerics " +
                        setup.numerics;
  command += " --rounds " + std::to_string(arguments.rounds) + " --lengths " + joined(arguments.lengths) +
             " --depths " + joined(arguments.depths);
  if (arguments.wants("turns")) command += " --conversations " + std::to_string(arguments.conversations);
  if (!arguments.reports.empty()) command += " --histories " + joined(arguments.histories) + " --report FILE";
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
  setup.commit = arguments.commit;
  setup.date = today();
  setup.command = command_of(arguments, setup);
  return setup;
}

Status run_bench(BenchArguments arguments) {
  FileOps& files = system_file_ops();
  std::vector<Rival> rivals;
  if (!arguments.against.empty()) {
    TRY_ASSIGN(rivals, read_rival_file(files, arguments.against));
  }
  if (arguments.model.n_threads == 0) arguments.model.n_threads = available_cpus();
  TRY_ASSIGN(const std::string path, resolve_model(arguments.model.model));
  TRY_ASSIGN(const Isa isa, active_isa());
  BenchRun run(arguments, setup_of(arguments, path, isa), std::move(rivals));
  TRY(run.load(path));
  TRY(run.rates());
  if (arguments.wants("turns")) TRY(run.turns());
  if (!arguments.reports.empty()) TRY(run.curve());
  return run.finish(files);
}

}  // namespace

void add_bench(CLI::App& root, int& exit_code) {
  auto arguments = std::make_shared<BenchArguments>();
  CLI::App* command =
      root.add_subcommand("bench", "rates of a model, in per cent of what the machine can do");
  arguments->model.add_model(*command, false);
  arguments->model.add_running(*command);
  command->add_option("--what", arguments->what, "all, or some of prefill, decode, turns (comma between)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"all", "prefill", "decode", "turns"}));
  command->add_option("--lengths", arguments->lengths, "new tokens of the prefills")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--depths", arguments->depths, "tokens in front of decode and of 44-token turns")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--rounds", arguments->rounds, "repetitions, at least; the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--conversations", arguments->conversations,
                   "growing conversations; the median counts; 0: none")
      ->check(CLI::Range(0, 100))
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "one JSON object a line");
  command->add_option("--against", arguments->against,
                      "JSON lines of other engines, to compare with row by row");
  CLI::Option* commit = command->add_option("--commit", arguments->commit, "what --csv and --report call this build");
  command->add_option("--csv", arguments->csv, "a results file to append to")->needs(commit);
  command
      ->add_option("--report", arguments->reports,
                   "writes the time to the first token against the history, with reuse, without and from disk: a page "
                   "with pictures (.html) or numbers (.csv); may be repeated")
      ->allow_extra_args(false)
      ->check([](const std::string& path) {
        return is_report_path(path) ? std::string() : "--report: " + path + " ends neither in .html nor in .csv";
      });
  command->add_option("--histories", arguments->histories, "tokens of history of --report")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->callback([arguments, &exit_code] {
    if (const Status status = run_bench(*arguments); !status.ok()) exit_code = report(status);
  });
}

}  // namespace ibid
