// From a model file to a model that runs.
#pragma once

#include <memory>

#include "base/result.h"
#include "model/language_model.h"
#include "model/memory_plan.h"
#include "model/model_options.h"

namespace ibid {

class ModelFile;

// Reads the configuration, plans the memory, and packs the weights. The file may be closed afterwards.
// kv_budget_bytes: what the caller will spend on keys and values, counted into the check of memory.
// Errors: those of read_config(), plan_memory(), refuse_unknown_tensors(), check_memory() and
// TransformerModel::create().
Result<std::unique_ptr<LanguageModel>> load_language_model(const ModelFile& file, const ModelOptions& options,
                                                           size_t kv_budget_bytes = 0);

}  // namespace ibid
