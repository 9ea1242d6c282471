// Loads a model file into a LanguageModel, and its chat template.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/config/model_options.h"
#include "model/forward/language_model.h"
#include "model/memory_plan.h"
#include "templates/chat_template.h"

namespace ibid {

class ModelFile;
class Tokenizer;

// Packs the weights according to `plan`, the result of plan_memory(file, config, options). The file may be closed
// afterwards. kv_budget_bytes: the caller's budget for keys and values, included in the memory check.
// Errors: those of refuse_unknown_tensors(), check_memory() and TransformerModel::create().
Result<std::unique_ptr<LanguageModel>> load_language_model(const ModelFile& file, ModelConfig config,
                                                           const ModelOptions& options, const MemoryPlan& plan,
                                                           size_t kv_budget_bytes);

// As load_language_model() with a configuration, but first reads the configuration and plans the memory;
// kv_budget_bytes is 0. Errors: also those of read_config() and plan_memory().
Result<std::unique_ptr<LanguageModel>> load_language_model(const ModelFile& file, const ModelOptions& options);

// Compiles the model's own chat template, with the file's special tokens as default variables. Errors: kNotFound if
// the model has no template; kTemplateSyntax with the file and the line; those of find_chat_template(). A defect
// of the template for tools only is no error, but is appended to `warnings`.
Result<ChatTemplate> load_chat_template(const ModelFile& file, const TemplateBudget& budget = {},
                                        std::vector<std::string>* warnings = nullptr);

// Makes the special token that the template writes after an answer an end of turn.
void add_template_end(const ChatTemplate& chat_template, Tokenizer& tokenizer);

}  // namespace ibid
