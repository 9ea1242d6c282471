// BenchRun: the parts of one `ibid bench`, in order: load, rates, turns of conversations, the time to the first token
// against the history. Owns the model and the figures so far; prints each as it is measured, to standard output, and
// says to standard error what it leaves out and how long it will take. Not thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "apps/bench/serve_bench.h"
#include "apps/models/model_arguments.h"
#include "base/file_ops.h"
#include "base/result.h"
#include "bench/lab/figure.h"
#include "bench/lab/model_work.h"
#include "bench/lab/processes.h"
#include "bench/lab/rates.h"
#include "bench/lab/report.h"
#include "model/forward/language_model.h"
#include "model/model_fingerprint.h"
#include "runtime/engine/engine.h"
#include "weights/model_file.h"

namespace ibid {

struct BenchArguments {
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
  ServeBenchArguments serve;

  bool wants(const char* part) const;
};

class BenchRun {
 public:
  // `arguments` outlive the run.
  BenchRun(const BenchArguments& arguments, BenchSetup setup, std::vector<Rival> rivals);

  // Loads the model, timed; plans the rest and says how long it will take.
  Status load(const std::string& path);
  Status rates();
  Status turns();
  // The time to the first token against the history, and its reports.
  Status curve();
  Status finish(FileOps& files) const;

 private:
  // Keeps what fits into the context, and prints a notice for what does not.
  void plan(bool has_conversations);
  void leave_out(const std::string& name, size_t positions) const;
  void print_heading() const;
  void emit(const Figure& figure);
  void emit_memory(size_t meter_bytes);
  // A fall of the rate that neighbours of this machine may have made: both lengths once more.
  Status measure_step_again(RateBench& bench);
  // An engine on the model that was loaded; only one at a time may run.
  Result<std::shared_ptr<Engine>> make_engine(const std::string& cache_directory, const Fingerprint* fingerprint) const;

  const BenchArguments& arguments_;
  const BenchSetup setup_;
  const std::vector<Rival> rivals_;
  std::vector<Figure> figures_;
  std::string path_;
  std::unique_ptr<ModelFile> file_;
  std::shared_ptr<LanguageModel> model_;
  ModelWork work_;
  PlannedRun planned_;
  PrefillStep step_, step_again_;
  size_t load_peak_bytes_ = 0;
  const OtherProcesses others_;
};

}  // namespace ibid
