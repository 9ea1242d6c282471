// ibid bench: what a model does on this machine, beside what the machine can do and what others do.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <memory>
#include <utility>

#include "apps/bench/chat_turns.h"
#include "apps/bench/figure.h"
#include "apps/bench/model_work.h"
#include "apps/bench/other_processes.h"
#include "apps/bench/process_memory.h"
#include "apps/bench/rates.h"
#include "apps/bench/report.h"
#include "apps/bench/rival_lines.h"
#include "apps/bench/shared_model.h"
#include "apps/bench/turn_curve_bench.h"
#include "apps/bench/turn_curve_report.h"
#include "apps/command.h"
#include "apps/model_arguments.h"
#include "apps/models/model_catalog.h"
#include "base/clock.h"
#include "kernels/dispatch.h"
#include "model/architectures.h"
#include "model/load_model.h"
#include "model/model_fingerprint.h"
#include "runtime/engine.h"
#include "runtime/stopwatch.h"
#include "weights/model_file.h"

namespace ibid {

namespace {

constexpr size_t kSystemTokens[] = {0, 1000, 3500};

struct Arguments {
  ModelArguments model;
  std::vector<std::string> what = {"all"};
  std::vector<size_t> lengths = {8, 16, 32, 63, 64, 65, 128, 512};
  std::vector<size_t> depths = {0, 1024, 4096};
  size_t rounds = 5;
  size_t conversations = 1;
  bool json = false;
  std::string against;
  std::string csv;
  std::string commit;
  std::vector<std::string> reports;
  std::vector<size_t> histories = {0, 250, 500, 1000, 2000, 4000, 8000};

  bool wants(const char* part) const {
    return std::any_of(what.begin(), what.end(),
                       [&](const std::string& w) { return w == "all" || w == part; });
  }
};

void notice(const std::string& text) { std::fprintf(stderr, "ibid: %s\n", text.c_str()); }

std::string joined(const std::vector<size_t>& numbers) {
  std::string text;
  for (const size_t n : numbers) text += (text.empty() ? "" : ",") + std::to_string(n);
  return text;
}

// The command that gives these figures again, without the paths of this machine.
std::string command_of(const Arguments& arguments, const BenchSetup& setup) {
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

BenchSetup setup_of(const Arguments& arguments, const std::string& path, Isa isa) {
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

// What the parts of a run share: where figures go, and the figures so far.
class Run {
 public:
  Run(const Arguments& arguments, BenchSetup setup, std::vector<Rival> rivals)
      : arguments_(arguments), setup_(std::move(setup)), rivals_(std::move(rivals)) {}

  // Loads the model, timed.
  Status load(const std::string& path);
  Status rates();
  Status turns();
  // The time to the first token against the history, and its reports.
  Status curve(FileOps& files);
  Status finish(FileOps& files) const;

 private:
  void emit(const Figure& figure);
  // An engine on the model that was loaded; only one at a time may run.
  Result<std::shared_ptr<Engine>> make_engine(const std::string& cache_directory, const Fingerprint* fingerprint) const;
  void leave_out(const std::string& name, size_t positions) const;
  void emit_memory(size_t meter_bytes);

  const Arguments& arguments_;
  const BenchSetup setup_;
  const std::vector<Rival> rivals_;
  std::vector<Figure> figures_;
  std::string path_;
  std::unique_ptr<ModelFile> file_;
  std::shared_ptr<LanguageModel> model_;
  ModelWork work_;
  size_t load_peak_bytes_ = 0;
  const OtherProcesses others_;
};

void Run::emit(const Figure& figure) {
  if (arguments_.json) {
    std::puts(json_line(setup_, figure, rivals_).c_str());
  } else {
    if (figures_.empty()) {
      std::printf("%s, %d threads, %s keys and values, %s, %s\n%s\n%s\n", setup_.model.c_str(),
                  setup_.n_threads, setup_.kv.c_str(), setup_.numerics.c_str(), setup_.isa.c_str(),
                  setup_.machine.c_str(), table_header(rivals_).c_str());
    }
    std::puts(table_row(figure, rivals_).c_str());
  }
  std::fflush(stdout);
  figures_.push_back(figure);
}

Status Run::load(const std::string& path) {
  path_ = path;
  const int64_t start = system_clock().steady_ns();
  TRY_ASSIGN(file_, open_model_file(path));
  const ModelOptions options = arguments_.model.options();
  TRY_ASSIGN(model_, load_language_model(*file_, options));
  const double load_ms = milliseconds_since(system_clock(), start);
  load_peak_bytes_ = process_memory().peak_bytes;
  TRY_ASSIGN(const ModelConfig config, read_config(*file_));
  TRY_ASSIGN(work_, model_work(*file_, config, options));
  Figure figure;
  figure.kind = find_figure_kind("load");
  figure.value = {load_ms, load_ms, load_ms};
  figure.details = {{"file_mb", static_cast<double>(file_->file_bytes()) / 1e6}};
  emit(figure);
  return {};
}

void Run::leave_out(const std::string& name, size_t positions) const {
  notice(name + " is left out: it takes " + std::to_string(positions) + " positions, the context has " +
         std::to_string(model_->max_seq_len()));
}

Status Run::rates() {
  const size_t context = model_->max_seq_len();
  std::vector<size_t> lengths, depths;
  size_t most = 0;
  for (const size_t n : arguments_.wants("prefill") ? arguments_.lengths : std::vector<size_t>()) {
    if (n > context) {
      leave_out("prefill of " + std::to_string(n), n);
      continue;
    }
    lengths.push_back(n);
    most = std::max(most, n);
  }
  for (const size_t depth :
       arguments_.wants("decode") || arguments_.wants("turns") ? arguments_.depths : std::vector<size_t>()) {
    if (RateBench::positions_for_depth(depth) > context) {
      leave_out("depth " + std::to_string(depth), RateBench::positions_for_depth(depth));
      continue;
    }
    depths.push_back(depth);
    most = std::max(most, RateBench::positions_for_depth(depth));
  }
  if (most == 0) return {};
  TRY_ASSIGN(const auto bench, RateBench::create(*model_, work_, setup_.n_threads, arguments_.rounds, most));
  const FigureSink sink = [this](const Figure& figure) { emit(figure); };
  for (const size_t n : lengths) TRY(bench->prefill(n, sink));
  for (const size_t depth : depths) {
    if (arguments_.wants("decode")) TRY(bench->decode(depth, sink));
    if (arguments_.wants("turns")) TRY(bench->turn(depth, sink));
  }
  emit_memory(bench->meter_bytes());
  return {};
}

void Run::emit_memory(size_t meter_bytes) {
  const size_t resident = process_memory().resident_bytes;
  const size_t running = resident - std::min(resident, meter_bytes);
  const double peak_mb = static_cast<double>(std::max(load_peak_bytes_, running)) / 1e6;
  Figure figure;
  figure.kind = find_figure_kind("memory");
  figure.value = {peak_mb, peak_mb, peak_mb};
  figure.details = {{"load_peak_mb", static_cast<double>(load_peak_bytes_) / 1e6},
                    {"running_mb", static_cast<double>(running) / 1e6},
                    {"weights_mb", static_cast<double>(work_.weights_bytes) / 1e6}};
  char note[100];
  std::snprintf(note, sizeof note, "while loading %.0f, with keys and values %.0f; packed weights %.0f",
                static_cast<double>(load_peak_bytes_) / 1e6, static_cast<double>(running) / 1e6,
                static_cast<double>(work_.weights_bytes) / 1e6);
  figure.note = note;
  emit(figure);
}

Result<std::shared_ptr<Engine>> Run::make_engine(const std::string& cache_directory,
                                                 const Fingerprint* fingerprint) const {
  EngineParts parts;
  parts.name = path_;
  TRY_ASSIGN(parts.tokenizer, load_tokenizer(*file_));
  TRY_ASSIGN(parts.chat_template, ChatTemplate::load(*file_));
  parts.kv_budget_bytes = default_kv_budget_bytes(model_->kv_layout().page_bytes(), model_->max_seq_len(),
                                                  available_memory_bytes());
  if (fingerprint != nullptr) {
    // The history in its session, again where it is read again, and what the forks of a round add.
    parts.kv_budget_bytes += parts.kv_budget_bytes / 2;
    parts.fingerprint = *fingerprint;
    parts.cache_directory = cache_directory;
    parts.cache_directory_bytes = 2 * parts.kv_budget_bytes;
  }
  parts.model = std::make_unique<SharedModel>(model_);
  return Engine::create(std::move(parts));
}

Status Run::turns() {
  Result<std::shared_ptr<Engine>> engine = make_engine("", nullptr);
  if (!engine.ok()) {
    notice("turns of a conversation are left out: " + engine.status().message());
    return {};
  }
  const FigureSink sink = [this](const Figure& figure) { emit(figure); };
  for (const size_t n : kSystemTokens) TRY(bench_chat_turns(*engine, n, sink));
  return bench_conversation(*engine, arguments_.conversations, sink);
}

Status Run::curve(FileOps& files) {
  TRY_ASSIGN(const Fingerprint fingerprint,
             fingerprint_model(*file_, arguments_.model.options(), model_->max_seq_len(), model_->kv_layout()));
  const auto factory = [&](const std::string& directory) { return make_engine(directory, &fingerprint); };
  TRY_ASSIGN(const auto bench, TurnCurveBench::create(factory, {.rounds = arguments_.rounds}));
  std::vector<TurnCurvePoint> points;
  if (!arguments_.json) std::fputs(turn_curve_table_header().c_str(), stdout);
  for (const size_t history : arguments_.histories) {
    if (history + TurnCurveBench::kTurnPositions > model_->max_seq_len()) {
      leave_out("history " + std::to_string(history), history + TurnCurveBench::kTurnPositions);
      continue;
    }
    TRY_ASSIGN(const TurnCurvePoint point, bench->measure(history));
    points.push_back(point);
    std::fputs(arguments_.json ? (turn_curve_json_line(setup_, point) + "\n").c_str()
                               : turn_curve_table_row(point).c_str(),
               stdout);
    std::fflush(stdout);
  }
  if (!arguments_.json) std::fputs(turn_curve_summary(points).c_str(), stdout);
  for (const std::string& path : arguments_.reports) {
    TRY(write_turn_curve(files, path, setup_, points, arguments_.rounds));
  }
  return {};
}

Status Run::finish(FileOps& files) const {
  const PrefillStep step = worst_prefill_step(figures_);
  const double others = others_.percent();
  if (arguments_.json) {
    Json line = {{"engine", "ibid"},
                 {"what", "run"},
                 {"machine", setup_.machine},
                 {"other_processes_percent", others}};
    if (step.from != 0) line["prefill_step"] = {{"from", step.from}, {"to", step.to}, {"ratio", step.ratio}};
    std::puts(json_to_string(line).c_str());
  } else {
    if (step.from != 0) {
      std::printf("largest fall of the prefill rate from one length to the next: %.1f %% (%zu to %zu)\n",
                  100 * std::max(0.0, 1 - step.ratio), step.from, step.to);
    }
    std::printf("other processes had %.1f %% of the CPUs\n", others);
  }
  return arguments_.csv.empty() ? Status() : append_to_csv(files, arguments_.csv, setup_, figures_);
}

Status run_bench(Arguments arguments) {
  FileOps& files = system_file_ops();
  std::vector<Rival> rivals;
  if (!arguments.against.empty()) {
    TRY_ASSIGN(rivals, read_rival_file(files, arguments.against));
  }
  if (arguments.model.n_threads == 0) arguments.model.n_threads = available_cpus();
  TRY_ASSIGN(const std::string path, resolve_model(arguments.model.model));
  TRY_ASSIGN(const Isa isa, active_isa());
  Run run(arguments, setup_of(arguments, path, isa), std::move(rivals));
  TRY(run.load(path));
  TRY(run.rates());
  if (arguments.wants("turns")) TRY(run.turns());
  if (!arguments.reports.empty()) TRY(run.curve(files));
  return run.finish(files);
}

}  // namespace

void add_bench(CLI::App& root, int& exit_code) {
  auto arguments = std::make_shared<Arguments>();
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
