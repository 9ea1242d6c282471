// From command-line arguments to an engine, with remarks for the person who waits.
#pragma once

#include <memory>
#include <string>

#include "apps/models/model_arguments.h"
#include "base/result.h"
#include "runtime/engine/engine.h"

namespace ibid {

// The options of an engine as the arguments set them; the rest as it is by default.
EngineOptions engine_options(const ModelArguments& arguments);

// The path of the model. The default one, where it is meant and not there, is fetched when the arguments allow it
// (--fetch) or `may_ask` and the person at the terminal says yes; else the error says which command fetches it.
Result<std::string> find_model(const ModelArguments& arguments, bool may_ask = false);

// Loads the model at `path`. Says on standard error when --context is more than the model was trained for.
Result<std::shared_ptr<Engine>> load_engine(const std::string& path, const ModelArguments& arguments,
                                            const EngineOptions& options);
// cache_directory, kv_budget_bytes: as in EngineOptions.
Result<std::shared_ptr<Engine>> load_engine(const std::string& path, const ModelArguments& arguments,
                                            const std::string& cache_directory = {}, size_t kv_budget_bytes = 0);

}  // namespace ibid
