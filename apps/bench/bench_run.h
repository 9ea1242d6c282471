// BenchRun: the parts of one `ibid bench`, in order: load, rates, conversation turns, time to first token by history
// length. Owns the model and the figures. Prints each figure to standard output as soon as it is measured; prints
// skipped parts and the expected duration to standard error. Not thread-safe.
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
#include "runtime/engine/engine_state.h"
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
  std::string report;
  std::vector<size_t> histories = {0, 250, 500, 1000, 2000, 4000, 8000};
  ServeBenchArguments serve;

  bool wants(const char* part) const;
};

class BenchRun {
 public:
  // `arguments` must outlive the run.
  BenchRun(const BenchArguments& arguments, BenchSetup setup, std::vector<Rival> rivals);

  // Loads the model and measures how long that takes; then plans the other parts of the benchmark, and prints the
  // expected duration.
  Status load(const std::string& path);
  Status rates();
  Status turns();
  // Measures the time to first token by history length, and writes the report.
  Status curve();
  Status finish(FileOps& files) const;

 private:
  // Selects the parts of the benchmark that fit into the context, and reports those that do not.
  void plan(bool has_conversations);
  void leave_out(const std::string& name, size_t positions) const;
  void print_heading() const;
  void emit(const Figure& figure);
  void emit_memory(size_t meter_bytes);
  // If the prefill rate falls unexpectedly from one length to the next, measures both lengths again, because other
  // processes may have caused the fall.
  Status measure_step_again(RateBench& bench);
  // Creates an engine on the loaded model. At most one engine may run at a time.
  Result<std::shared_ptr<Engine>> make_engine(const std::string& cache_directory,
                                              const LaterFingerprint* fingerprint) const;

  const BenchArguments& arguments_;
  const BenchSetup setup_;
  const std::vector<Rival> rivals_;
  std::vector<Figure> figures_;
  std::string path_;
  std::shared_ptr<const ModelFile> file_;
  std::shared_ptr<LanguageModel> model_;
  ModelWork work_;
  PlannedRun planned_;
  PrefillStep step_, step_again_;
  size_t load_peak_bytes_ = 0;
  const OtherProcesses others_;
};

}  // namespace ibid
