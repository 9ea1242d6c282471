// ibid audit: recomputes the keys, values and states of a cache directory, compares them bit by bit, and removes wrong
// ones.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "apps/chat/load_engine.h"
#include "apps/command_line/command.h"
#include "apps/models/model_arguments.h"
#include "apps/terminal/interrupt.h"
#include "apps/terminal/progress.h"
#include "base/json_limits.h"
#include "cache/tier/record_tree.h"
#include "runtime/audit/record_audit.h"

namespace ibid {

namespace {

constexpr uint64_t kAnySize = 1'000'000'000'000'000;  // no directory has as many bytes

struct AuditArguments {
  std::string directory;
  ModelArguments model;
  std::string share = "100%";
  std::optional<uint64_t> seed;
  bool json = false;
};

struct AuditReport {
  std::string directory;
  size_t n_pages = 0, n_states = 0;       // records that can be audited
  size_t n_of_others = 0, n_orphans = 0;  // as in RecordList
  size_t n_damaged = 0;                   // records whose header was found damaged when the directory was opened
  AuditCounts counts;
  std::vector<AuditResult> wrong;
  bool is_interrupted = false;

  bool is_right() const { return counts.n_wrong + counts.n_unexplained + counts.n_unreadable + n_damaged == 0; }
};

// Opens the directory with the model. Nothing is evicted, whatever the size of the directory.
Result<std::shared_ptr<Engine>> open_directory(const AuditArguments& arguments) {
  std::error_code error;
  if (!std::filesystem::is_directory(arguments.directory, error)) {
    return Status(ErrorCode::kNotFound, arguments.directory + ": no such directory");
  }
  TRY_ASSIGN(const std::string path, find_model(arguments.model));
  EngineOptions options = engine_options(arguments.model);
  options.cache_directory = arguments.directory;
  options.cache_directory_bytes = kAnySize;
  TRY_ASSIGN(std::shared_ptr<Engine> engine, load_engine(path, arguments.model, options));
  TRY(engine->state().tier_status());
  return engine;
}

// Returns the numbers of the records to audit, ascending.
std::vector<size_t> sample_of(size_t n, double share, std::optional<uint64_t> seed) {
  std::vector<size_t> all(n), sample;
  std::iota(all.begin(), all.end(), size_t{0});
  const auto n_wanted = static_cast<size_t>(std::ceil(static_cast<double>(n) * share));
  std::mt19937_64 generator(seed ? *seed : std::random_device()());
  std::ranges::sample(all, std::back_inserter(sample), static_cast<ptrdiff_t>(n_wanted), generator);
  return sample;
}

Json wrong_json(const AuditResult& result) {
  return {{"file", result.removed.name},
          {"kind", result.wrong.kind == KvRecordKind::kPage ? "page" : "state"},
          {"first_position", result.wrong.first_position},
          {"n_rows", result.wrong.n_rows()},
          {"layer", result.layer},
          {"writer", writer_text(result.removed.writer)},
          {"n_followers", result.removed.n_followers}};
}

Json report_json(const AuditReport& report) {
  Json wrong = Json::array();
  for (const AuditResult& result : report.wrong) wrong.push_back(wrong_json(result));
  return {{"directory", report.directory},
          {"pages", report.n_pages},
          {"states", report.n_states},
          {"audited", report.counts.n_audited()},
          {"right", report.counts.n_right},
          {"wrong", std::move(wrong)},
          {"unexplained", report.counts.n_unexplained},
          {"unreadable", report.counts.n_unreadable + report.n_damaged},
          {"followers", report.counts.n_followers},
          {"skipped", report.counts.n_skipped},
          {"of_others", report.n_of_others},
          {"orphans", report.n_orphans},
          {"interrupted", report.is_interrupted}};
}

std::string counted(size_t n, const char* one, const char* many) {
  return std::to_string(n) + " " + (n == 1 ? one : many);
}

void print_report(const AuditReport& report) {
  const AuditCounts& counts = report.counts;
  const auto print = [](size_t n, const char* text) {
    if (n > 0) std::printf("%zu %s\n", n, text);
  };
  std::printf("audited %zu of %s and %s: %zu right, %zu wrong\n", counts.n_audited(),
              counted(report.n_pages, "page", "pages").c_str(), counted(report.n_states, "state", "states").c_str(),
              counts.n_right, counts.n_wrong);
  print(counts.n_unexplained, "with different bits in two computations: the processor or its memory may be faulty");
  print(counts.n_unreadable + report.n_damaged, "damaged, and moved to quarantine/");
  print(counts.n_followers, "removed, because they may be computed from a wrong one");
  print(counts.n_skipped, "not computed, for lack of memory or context");
  print(report.n_orphans, "without the pages before them, which are needed to compute them");
  print(report.n_of_others, "of another model, other settings or another version");
}

Result<AuditReport> audit_directory(const AuditArguments& arguments) {
  TRY_ASSIGN(const std::shared_ptr<Engine> engine, open_directory(arguments));
  EngineState& state = engine->state();
  AuditReport report;
  report.directory = arguments.directory;
  report.n_damaged = state.tier()->stats().quarantined;
  TierRecords& records = *state.tier()->records();
  TRY_ASSIGN(const RecordList list, records.list());
  report.n_pages = list.tree.n_pages();
  report.n_states = list.tree.size() - report.n_pages;
  report.n_of_others = list.n_of_others;
  report.n_orphans = list.n_orphans;
  if (list.tree.size() == 0 && list.n_of_others > 0) {
    return Status(ErrorCode::kMismatch, arguments.directory + " has " +
                                            counted(list.n_of_others, "record, but not", "records, but none") +
                                            " of this model with these settings (--kv, --numerics, --context)");
  }
  const InterruptScope interrupt;
  RecordAudit audit(state, records, {.stop = interrupt.token()});
  ProgressIndicator progress(STDERR_FILENO);
  const std::vector<size_t> sample = sample_of(list.tree.size(), *read_share(arguments.share), arguments.seed);
  for (size_t i = 0; i < sample.size() && !interrupt.interrupted(); ++i) {
    progress.show_step("record " + std::to_string(i + 1) + " of " + std::to_string(sample.size()));
    const Result<AuditResult> result = audit.audit(list.tree.at(sample[i]));
    if (result.status().code() == ErrorCode::kCancelled) break;
    if (!result.ok()) return result.status();
    report.counts.add(*result);
    if (result->verdict != AuditVerdict::kWrong) continue;
    report.wrong.push_back(*result);
    if (arguments.json) continue;
    progress.end();
    std::printf("wrong: %s; moved to quarantine/: %s\n", describe_wrong(*result).c_str(), result->removed.name.c_str());
    std::fflush(stdout);
  }
  progress.end();
  report.is_interrupted = interrupt.interrupted();
  return report;
}

int run_audit(const AuditArguments& arguments) {
  const Result<AuditReport> report = audit_directory(arguments);
  if (!report.ok()) {
    (void)ibid::report(report.status());
    return kWrongUsage;  // 1 is for wrong records
  }
  if (arguments.json) {
    std::puts(json_to_string(report_json(*report)).c_str());
  } else {
    print_report(*report);
  }
  if (report->is_interrupted) return kInterruptedStatus;
  return report->is_right() ? 0 : 1;
}

}  // namespace

void add_audit(CLI::App& root, int& exit_code) {
  auto arguments = std::make_shared<AuditArguments>();
  CLI::App* command = root.add_subcommand("audit", "computes stored keys and values again, and removes wrong ones");
  add_text_option(*command, "DIR", arguments->directory, "the cache directory of a model, which no other process uses")
      ->type_name("DIR")
      ->required()
      ->group(kCommonGroup);
  arguments->model.add_model_option(*command);
  command->add_option("--share", arguments->share, "share of the pages and states that are recomputed, at random")
      ->type_name("SHARE")
      ->check(percentage())
      ->capture_default_str()
      ->group(kCommonGroup);
  command->add_option("--seed", arguments->seed, "seed of the sample; default: a random one")
      ->type_name("N")
      ->group(kCommonGroup);
  command->add_flag("--json", arguments->json, "one JSON object")->group(kCommonGroup);
  arguments->model.add_running(*command);
  command->callback([arguments, &exit_code] { exit_code = run_audit(*arguments); });
}

}  // namespace ibid
