// From a model file to a model that runs, and to its chat template.
#pragma once

#include <memory>

#include "base/result.h"
#include "model/config/model_options.h"
#include "model/forward/language_model.h"
#include "model/memory_plan.h"
#include "templates/chat_template.h"

namespace ibid {

class ModelFile;

// Packs the weights as `plan` of plan_memory(file, config, options) has it. The file may be closed afterwards.
// kv_budget_bytes: what the caller will spend on keys and values, counted into the check of memory.
// Errors: those of refuse_unknown_tensors(), check_memory() and TransformerModel::create().
Result<std::unique_ptr<LanguageModel>> load_language_model(const ModelFile& file, ModelConfig config,
                                                           const ModelOptions& options, const MemoryPlan& plan,
                                                           size_t kv_budget_bytes);

// Reads the configuration and plans the memory first, without a budget. Errors: those of read_config() and
// plan_memory() as well.
Result<std::unique_ptr<LanguageModel>> load_language_model(const ModelFile& file, const ModelOptions& options);

// A model's own chat template, compiled. Its default variables are the file's special tokens. Errors: kNotFound when
// the model has no template; kTemplateSyntax with the file and the line; those of find_chat_template().
Result<ChatTemplate> load_chat_template(const ModelFile& file, const TemplateBudget& budget = {});

}  // namespace ibid
