#include "model/load_model.h"

#include <utility>

#include "model/architectures/architectures.h"
#include "model/forward/transformer.h"
#include "model/weights/unused_tensors.h"
#include "tokenizer/loading/gguf_vocabulary.h"
#include "weights/model_file.h"

namespace ibid {

namespace {

Result<std::unique_ptr<LanguageModel>> load(const ModelFile& file, ModelConfig config, const ModelOptions& options,
                                            const MemoryPlan& plan, size_t kv_budget_bytes) {
  TRY(refuse_unknown_tensors(file, config));
  TRY(check_memory(plan, kv_budget_bytes));
  TRY_ASSIGN(std::unique_ptr<LanguageModel> model,
             TransformerModel::create(file, std::move(config), options, plan.kv_layout));
  return model;
}

}  // namespace

Result<std::unique_ptr<LanguageModel>> load_language_model(const ModelFile& file, ModelConfig config,
                                                           const ModelOptions& options, const MemoryPlan& plan,
                                                           size_t kv_budget_bytes) {
  Result<std::unique_ptr<LanguageModel>> model = load(file, std::move(config), options, plan, kv_budget_bytes);
  TRY(file.check_unchanged());  // checked first, because a change of the file may be the cause of the error
  return model;
}

Result<std::unique_ptr<LanguageModel>> load_language_model(const ModelFile& file, const ModelOptions& options) {
  const auto read = [&]() -> Result<std::unique_ptr<LanguageModel>> {
    TRY_ASSIGN(ModelConfig config, read_config(file));
    TRY_ASSIGN(const MemoryPlan plan, plan_memory(file, config, options));
    return load(file, std::move(config), options, plan, 0);
  };
  Result<std::unique_ptr<LanguageModel>> model = read();
  TRY(file.check_unchanged());  // checked first, as above
  return model;
}

Result<ChatTemplate> load_chat_template(const ModelFile& file, const TemplateBudget& budget) {
  TRY_ASSIGN(std::optional<ChatTemplateText> text, find_chat_template(file));
  if (!text) return Status(ErrorCode::kNotFound, file.path() + " has no chat template");
  Result<ChatTemplate> compiled = ChatTemplate::compile(text->source, budget, std::move(text->variables));
  if (!compiled.ok()) return Status(compiled.status().code(), file.path() + ": " + compiled.status().message());
  return compiled;
}

}  // namespace ibid
