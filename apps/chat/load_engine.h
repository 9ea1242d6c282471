// Creates an engine from command-line arguments, and prints remarks for the user.
#pragma once

#include <memory>
#include <string>

#include "apps/models/model_arguments.h"
#include "base/result.h"
#include "runtime/engine/engine_state.h"

namespace ibid {

// Returns EngineOptions with the values of the arguments, and defaults for values that were not given.
EngineOptions engine_options(const ModelArguments& arguments);

// Returns the path of the model. Fetches a missing default model if the arguments allow it (--fetch), or if `may_ask`
// and the user agrees; otherwise the error names the command that fetches it.
Result<std::string> find_model(const ModelArguments& arguments, bool may_ask = false);

// Loads the model at `path`. Warns on standard error if --context exceeds the trained context.
Result<std::shared_ptr<Engine>> load_engine(const std::string& path, const ModelArguments& arguments,
                                            const EngineOptions& options);
// Loads the model at `path` with the options of `arguments`, but with this cache_directory and kv_budget_bytes
// (EngineOptions).
Result<std::shared_ptr<Engine>> load_engine(const std::string& path, const ModelArguments& arguments,
                                            const std::string& cache_directory = {}, size_t kv_budget_bytes = 0);

}  // namespace ibid
