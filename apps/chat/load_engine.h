// From command-line arguments to an engine, with what a person should hear meanwhile.
#pragma once

#include <memory>
#include <string>

#include "apps/model_arguments.h"
#include "base/result.h"
#include "runtime/engine.h"

namespace ibid {

// What the arguments say of an engine; the rest as it is by default.
EngineOptions engine_options(const ModelArguments& arguments);

// Resolves the model, fetching the default one when nothing was named and it is not there yet, and loads it.
// cache_directory: as in EngineOptions.
Result<std::shared_ptr<Engine>> load_engine(const ModelArguments& arguments, const std::string& cache_directory = {});

}  // namespace ibid
