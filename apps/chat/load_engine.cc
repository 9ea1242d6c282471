#include "apps/chat/load_engine.h"

#include "apps/models/model_catalog.h"
#include "apps/models/pull.h"

namespace ibid {

EngineOptions engine_options(const ModelArguments& arguments) {
  const ModelOptions model = arguments.options();
  EngineOptions options;
  options.numerics = model.numerics;
  options.kv_dtype = model.kv_dtype;
  options.n_threads = model.n_threads;
  options.max_seq_len = model.max_seq_len;
  return options;
}

Result<std::shared_ptr<Engine>> load_engine(const ModelArguments& arguments,
                                            const std::string& cache_directory) {
  Result<std::string> path = resolve_model(arguments.model);
  if (!path.ok() && arguments.model.empty()) path = pull_model(default_model());
  if (!path.ok()) return path.status();
  EngineOptions options = engine_options(arguments);
  options.cache_directory = cache_directory;
  return Engine::load(*path, options);
}

}  // namespace ibid
