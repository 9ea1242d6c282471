// Loads a model file into a LanguageModel, and its chat template.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/config/model_options.h"
#include "model/forward/language_model.h"
#include "model/memory_plan.h"
#include "templates/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

class ModelFile;

// Packs the weights according to `plan`, the result of plan_memory(file, config, options). The file may be closed
// afterwards. kv_budget_bytes: the caller's budget for keys and values, included in the memory check.
// Errors: those of refuse_unknown_tensors(), check_memory() and TransformerModel::create().
Result<std::unique_ptr<LanguageModel>> load_language_model(const ModelFile& file, ModelConfig config,
                                                           const ModelOptions& options, const MemoryPlan& plan,
                                                           size_t kv_budget_bytes);

// Reads the configuration, plans the memory and packs the weights; kv_budget_bytes is 0. Errors: those of
// read_config(), of plan_memory(), and of load_language_model() with a configuration.
Result<std::unique_ptr<LanguageModel>> load_language_model(const ModelFile& file, const ModelOptions& options);

// Compiles the model's own chat template, with the file's special tokens as default variables. Errors: kNotFound if the
// model has no template; kTemplateSyntax with the file and the line; those of find_chat_template(). If only the
// separate template for tools is defective, that is not an error, but is appended to `warnings`.
Result<ChatTemplate> load_chat_template(const ModelFile& file, const TemplateBudget& budget = {},
                                        std::vector<std::string>* warnings = nullptr);

// A model and what it needs to chat.
struct LoadedModel {
  std::unique_ptr<LanguageModel> model;
  std::unique_ptr<Tokenizer> tokenizer;       // its end-of-turn tokens include that of the template
  std::optional<ChatTemplate> chat_template;  // unset: the file has none
  std::vector<std::string> warnings;          // warnings about the file, the tokenizer and the chat template
};

// Packs the weights, and loads tokenizer and chat template; for models up to 2 GiB, does both at the same time. Errors,
// in this order: those of load_tokenizer(); of load_chat_template(), except kNotFound; of load_language_model().
Result<LoadedModel> load_model(const ModelFile& file, ModelConfig config, const ModelOptions& options,
                               const MemoryPlan& plan, size_t kv_budget_bytes);

// If the template writes a special token after an answer, makes this token an end of turn.
void add_template_end(const ChatTemplate& chat_template, Tokenizer& tokenizer);

}  // namespace ibid
