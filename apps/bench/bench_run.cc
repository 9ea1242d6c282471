#include "apps/bench/bench_run.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/checked.h"
#include "base/clock.h"
#include "bench/lab/chat_turns.h"
#include "bench/lab/figure_table.h"
#include "bench/lab/model_work.h"
#include "bench/lab/processes.h"
#include "bench/lab/turn_curve.h"
#include "bench/lab/turn_curve_bench.h"
#include "model/architectures/architectures.h"
#include "model/load_model.h"

namespace ibid {

namespace {

// CPU share of other processes above which measurements are unreliable.
constexpr double kMostOfOthersPercent = 5;

void notice(const std::string& text) { std::fprintf(stderr, "ibid: %s\n", text.c_str()); }

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace

bool BenchArguments::wants(const char* part) const {
  return std::any_of(what.begin(), what.end(), [&](const std::string& w) { return w == "all" || w == part; });
}

BenchRun::BenchRun(const BenchArguments& arguments, BenchSetup setup, std::vector<Rival> rivals)
    : arguments_(arguments), setup_(std::move(setup)), rivals_(std::move(rivals)) {}

void BenchRun::leave_out(const std::string& name, size_t positions) const {
  notice(name + " is left out: it needs " + std::to_string(positions) + " positions, the context has " +
         std::to_string(model_->max_seq_len()));
}

void BenchRun::plan(bool has_conversations) {
  const size_t context = model_->max_seq_len();
  const auto take = [&](const std::vector<size_t>& from, size_t more, const char* name, std::vector<size_t>& to) {
    for (const size_t n : from) {
      if (n + more <= context) to.push_back(n);
      if (n + more > context) leave_out(name + std::to_string(n), n + more);
    }
  };
  planned_ = {};
  planned_.rounds = arguments_.rounds;
  planned_.context = context;
  if (arguments_.wants("prefill")) take(arguments_.lengths, 0, "prefill of ", planned_.prefills);
  std::vector<size_t> depths;
  if (arguments_.wants("decode") || arguments_.wants("turns")) {
    take(arguments_.depths, RateBench::positions_for_depth(0), "depth ", depths);
  }
  if (arguments_.wants("decode")) planned_.decodes = depths;
  if (arguments_.wants("turns")) planned_.turns = depths;
  if (!has_conversations) return;
  if (arguments_.wants("turns")) {
    planned_.conversations = arguments_.conversations;
    for (const size_t n : kSystemLengths) {
      if (n + kChatTurnTokens <= context) planned_.system_lengths.push_back(n);
    }
  }
  if (!arguments_.report.empty()) {
    take(arguments_.histories, TurnCurveBench::kTurnPositions, "history ", planned_.histories);
  }
}

Status BenchRun::load(const std::string& path) {
  path_ = path;
  int64_t start = system_clock().steady_ns();
  TRY_ASSIGN(file_, open_model_file(path));
  const ModelOptions options = arguments_.model.options();
  TRY_ASSIGN(const ModelConfig config, read_config(*file_));
  TRY_ASSIGN(const MemoryPlan memory, plan_memory(*file_, config, options));
  const int64_t attempt = system_clock().steady_ns();
  Result<LoadedModel> loaded = load_model(*file_, config, options, memory, 0);
  if (loaded.ok()) {
    model_ = std::move(loaded->model);
  } else {  // measure without a tokenizer, which load_model() requires; load_ms leaves out the failed attempt
    start += system_clock().steady_ns() - attempt;
    TRY_ASSIGN(model_, load_language_model(*file_, config, options, memory, 0));
  }
  const double load_ms = milliseconds_since(system_clock(), start);
  load_peak_bytes_ = process_memory().peak_bytes;
  {
    // model_work() reads weights. The pages of its own mapping do not count as memory of the model.
    TRY_ASSIGN(const std::unique_ptr<const ModelFile> again, open_model_file(path));
    TRY_ASSIGN(work_, model_work(*again, config, options));
  }

  TRY_ASSIGN(const ModelPace pace, measure_pace(*model_, work_));
  plan(load_chat_template(*file_).ok());
  notice("this takes " + duration_in_words(estimated_seconds(planned_, pace)));
  if (!arguments_.json) print_heading();

  Figure figure;
  figure.kind = find_figure_kind("load");
  figure.value = {load_ms, load_ms, load_ms};
  figure.details = {{"file_mb", static_cast<double>(file_->file_bytes()) / 1e6}};
  emit(figure);
  return {};
}

void BenchRun::print_heading() const {
  std::vector<const char*> kinds = {"load"};
  if (!planned_.prefills.empty()) kinds.push_back("prefill");
  if (!planned_.decodes.empty()) kinds.push_back("decode");
  if (!planned_.turns.empty()) kinds.push_back("turn");
  kinds.push_back("memory");
  if (!planned_.system_lengths.empty()) kinds.push_back("chat_turn");
  print(setup_.model + "\n" + std::to_string(setup_.n_threads) + " threads, " + setup_.kv + " keys and values, " +
        setup_.numerics + ", " + setup_.isa + "\n" + setup_.machine + "\n\n" + figure_legend(kinds, !rivals_.empty()) +
        "\n" + figure_header());
}

void BenchRun::emit(const Figure& figure) {
  if (arguments_.json) {
    print(json_line(setup_, figure, rivals_) + "\n");
  } else {
    const FigureKind* const growing = find_figure_kind("conversation");
    if (figure.kind == growing && figures_.back().kind != growing) print(conversation_header());
    print(figure_row(figure, rivals_));
  }
  figures_.push_back(figure);
}

Status BenchRun::rates() {
  size_t most = 0;
  for (const size_t n : planned_.prefills) most = std::max(most, n);
  std::vector<size_t> depths = planned_.decodes.empty() ? planned_.turns : planned_.decodes;
  for (const size_t depth : depths) most = std::max(most, RateBench::positions_for_depth(depth));
  if (most == 0) {
    emit_memory(0);
    return {};
  }
  TRY_ASSIGN(const auto bench, RateBench::create(*model_, work_, setup_.n_threads, arguments_.rounds, most));
  const FigureSink sink = [this](const Figure& figure) { emit(figure); };
  for (const size_t n : planned_.prefills) TRY(bench->prefill(n, sink));
  TRY(measure_step_again(*bench));
  for (const size_t depth : depths) {
    if (!planned_.decodes.empty()) TRY(bench->decode(depth, sink));
    if (!planned_.turns.empty()) TRY(bench->turn(depth, sink));
  }
  emit_memory(bench->meter_bytes());
  return {};
}

Status BenchRun::measure_step_again(RateBench& bench) {
  step_ = worst_prefill_step(figures_);
  if (!step_.beyond_spread) return {};
  std::vector<Figure> again;
  const FigureSink sink = [&](const Figure& figure) { again.push_back(figure); };
  TRY(bench.prefill(step_.to, sink));
  TRY(bench.prefill(step_.from, sink));
  step_again_ = worst_prefill_step(again);
  return {};
}

void BenchRun::emit_memory(size_t meter_bytes) {
  const size_t resident = process_memory().resident_bytes;
  const size_t running = saturating_sub(resident, meter_bytes);
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

Result<std::shared_ptr<Engine>> BenchRun::make_engine(const std::string& cache_directory,
                                                      const LaterFingerprint* fingerprint) const {
  EngineParts parts;
  parts.name = path_;
  TRY_ASSIGN(parts.tokenizer, load_tokenizer(*file_));
  TRY_ASSIGN(parts.chat_template, load_chat_template(*file_));
  parts.kv_budget_bytes = default_kv_budget_bytes(model_->kv_layout().page_bytes(), model_->kv_layout().state_bytes(),
                                                  model_->max_seq_len(), available_memory_bytes());
  if (fingerprint != nullptr) {
    // Add memory for a second prefill of the history, and for the sessions that each round forks from the measured one.
    parts.kv_budget_bytes += parts.kv_budget_bytes / 2;
    parts.fingerprint = *fingerprint;
    parts.cache_directory = cache_directory;
    parts.cache_directory_bytes = 2 * parts.kv_budget_bytes;
  }
  parts.model = std::make_unique<SharedModel>(model_);
  return ibid::make_engine(std::move(parts));
}

Status BenchRun::turns() {
  Result<std::shared_ptr<Engine>> engine = make_engine("", nullptr);
  if (!engine.ok()) {
    notice("turns of a conversation are left out: " + engine.status().message());
    return {};
  }
  const FigureSink sink = [this](const Figure& figure) { emit(figure); };
  for (const size_t n : kSystemLengths) TRY(bench_chat_turns(*engine, n, sink));
  return bench_conversation(*engine, arguments_.conversations, sink);
}

Status BenchRun::curve() {
  TRY_ASSIGN(const ModelConfig config, read_config(*file_));
  const FingerprintSettings settings{arguments_.model.options().numerics, config.ropes, model_->max_seq_len(),
                                     model_->kv_layout()};
  TRY_ASSIGN(const LaterFingerprint fingerprint, fingerprint_model(*file_, settings, start_digest(file_)));
  TRY(fingerprint.get().status());  // no figure should have the time of hashing the file
  const auto factory = [&](const std::string& directory) { return make_engine(directory, &fingerprint); };
  TRY_ASSIGN(const auto bench, TurnCurveBench::create(factory, {.rounds = arguments_.rounds}));
  std::vector<TurnCurvePoint> points;
  if (!arguments_.json) print(turn_curve_table_header());
  for (const size_t history : planned_.histories) {
    TRY_ASSIGN(const TurnCurvePoint point, bench->measure(history));
    points.push_back(point);
    print(arguments_.json ? turn_curve_json_line(setup_, point) + "\n" : turn_curve_table_row(point));
  }
  if (!arguments_.json) print(turn_curve_summary(points));
  BenchSetup setup = setup_;
  setup.others_percent = others_.percent();
  TRY(write_turn_curve(arguments_.report, setup, points));
  notice(arguments_.report + " is written");
  return {};
}

Status BenchRun::finish(FileOps& files) const {
  const double others = others_.percent();
  if (arguments_.json) {
    Json line = {{"engine", "ibid"}, {"what", "run"}, {"machine", setup_.machine}, {"other_processes_percent", others}};
    if (step_.from != 0) {
      line["prefill_step"] = {{"from", step_.from}, {"to", step_.to}, {"ratio", step_.ratio}};
      if (step_again_.from != 0) line["prefill_step"]["again_ratio"] = step_again_.ratio;
    }
    print(json_to_string(line) + "\n");
  } else {
    print("\n" + prefill_step_line(step_, step_again_));
    std::printf("other processes had %.1f %% of the CPUs%s\n", others,
                others > kMostOfOthersPercent ? ": measure again when they are gone" : "");
  }
  return arguments_.csv.empty() ? Status() : append_to_csv(files, arguments_.csv, setup_, figures_);
}

}  // namespace ibid
