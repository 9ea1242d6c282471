#include "apps/chat/load_engine.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <iostream>

#include "apps/models/model_catalog.h"
#include "apps/terminal/output.h"
#include "apps/terminal/progress.h"
#include "apps/terminal/terminal_text.h"
#include "cache/tier/kv_tier.h"
#include "model/architectures/architectures.h"
#include "model/memory_plan.h"
#include "weights/model_file.h"

namespace ibid {

namespace {

// Asks the user on a terminal whether to fetch the model. Any answer but yes means no.
bool person_agrees(const KnownModel& model, const std::string& directory) {
  if (isatty(STDIN_FILENO) != 1 || isatty(STDERR_FILENO) != 1) return false;
  std::fprintf(stderr, "The model '%s' is not on this machine. Fetch it now (%s, %s)\ninto %s? [y/N] ", model.name,
               format_bytes(model.file_bytes).c_str(), model.license, directory.c_str());
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

// Warns if the context exceeds the trained context: the model still answers, but with decreasing quality.
void warn_of_long_context(const std::string& path, size_t context) {
  const Result<std::unique_ptr<ModelFile>> file = open_model_file(path);
  if (!file.ok()) return;  // loading reports the error
  const Result<ModelConfig> config = read_config(**file);
  if (!config.ok() || context <= config->trained_context) return;
  const std::string trained = std::to_string(config->trained_context);
  remark("ibid: the model was trained for " + trained + " positions; beyond them answers get worse (--context " +
         std::to_string(context) + ")");
}

}  // namespace

Result<std::string> find_model(const ModelArguments& arguments, bool may_ask) {
  Result<std::string> path = resolve_model(arguments.model);
  const KnownModel* known = arguments.model.empty() ? &default_model() : find_known_model(arguments.model);
  const bool could = !path.ok() && known != nullptr && models_directory().ok();
  if (!could) return path;
  const bool may = arguments.model.empty() && arguments.fetch;
  return may || (may_ask && person_agrees(*known, *models_directory())) ? pull_model(*known) : path;
}

EngineOptions engine_options(const ModelArguments& arguments) {
  const ModelOptions model = arguments.options();
  EngineOptions options;
  options.numerics = model.numerics;
  options.kv_dtype = model.kv_dtype;
  options.n_threads = model.n_threads;
  options.max_seq_len = model.max_seq_len;
  return options;
}

Result<std::shared_ptr<Engine>> load_engine(const std::string& path, const ModelArguments& arguments,
                                            const std::string& cache_directory, size_t kv_budget_bytes) {
  EngineOptions options = engine_options(arguments);
  options.cache_directory = cache_directory;
  options.kv_budget_bytes = kv_budget_bytes;
  return load_engine(path, arguments, options);
}

Result<std::shared_ptr<Engine>> load_engine(const std::string& path, const ModelArguments& arguments,
                                            const EngineOptions& options) {
  if (arguments.context > 0) warn_of_long_context(path, arguments.context);
  const Result<std::shared_ptr<Engine>> engine = [&] {
    ProgressIndicator waiting(STDERR_FILENO);
    waiting.show_step("loading " + one_line(std::filesystem::path(path).filename().string()));
    return Engine::load(path, options);
  }();
  if (!engine.ok()) return engine;
  for (const std::string& warning : (*engine)->warnings()) remark("ibid: warning: " + one_line(warning));
  if ((*engine)->state().tier() == nullptr) return engine;
  const std::string others = (*engine)->state().tier()->stats().other_versions;
  if (!others.empty()) remark("ibid: " + options.cache_directory + ": " + others);
  return engine;
}

}  // namespace ibid
