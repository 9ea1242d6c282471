#include "model/load_model.h"

#include <algorithm>
#include <future>
#include <optional>
#include <string_view>
#include <utility>

#include "model/architectures/architectures.h"
#include "model/forward/transformer.h"
#include "model/weights/unused_tensors.h"
#include "templates/message.h"
#include "tokenizer/loading/chat_template_text.h"
#include "tokenizer/tokenizer.h"
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
  TRY(file.check_unchanged());  // a change of the file may be the cause of the error
  return model;
}

Result<ChatTemplate> load_chat_template(const ModelFile& file, const TemplateBudget& budget,
                                        std::vector<std::string>* warnings) {
  TRY_ASSIGN(std::optional<ChatTemplateText> text, find_chat_template(file));
  if (!text) return Status(ErrorCode::kNotFound, file.path() + " has no chat template");
  Result<ChatTemplate> compiled = ChatTemplate::compile(text->source, budget, text->variables, text->source_for_tools);
  if (!compiled.ok() && !text->source_for_tools.empty()) {
    const std::string defect = compiled.status().message();
    compiled = ChatTemplate::compile(text->source, budget, std::move(text->variables));
    text->warnings.push_back(file.path() + ": the chat template 'tool_use' is not used: " + defect);
  }
  if (!compiled.ok()) return Status(compiled.status().code(), file.path() + ": " + compiled.status().message());
  if (warnings != nullptr) warnings->insert(warnings->end(), text->warnings.begin(), text->warnings.end());
  return compiled;
}

namespace {

// Returns what the template writes after an answer, up to the next turn.
std::string text_after_answer(const ChatTemplate& chat_template) {
  constexpr std::string_view kAnswer = "Kestrelreply";
  Json messages = Json::array({make_message(Role::kUser, "Kestrelquestion")});
  messages.push_back(make_message(Role::kAssistant, std::string(kAnswer)));
  const Result<MarkedText> text = chat_template.render(messages, {.values = {{"add_generation_prompt", false}}});
  if (!text.ok()) return {};
  const std::string bytes = text->bytes();
  const size_t at = bytes.rfind(kAnswer);
  return at == bytes.npos ? std::string() : bytes.substr(at + kAnswer.size());
}

// Loads everything except the model.
Result<LoadedModel> load_text(const ModelFile& file) {
  LoadedModel text;
  TRY_ASSIGN(text.tokenizer, load_tokenizer(file));
  text.warnings = file.warnings();
  text.warnings.insert(text.warnings.end(), text.tokenizer->warnings().begin(), text.tokenizer->warnings().end());
  Result<ChatTemplate> chat_template = load_chat_template(file, {}, &text.warnings);
  if (chat_template.ok()) {
    add_template_end(*chat_template, *text.tokenizer);
    text.chat_template = std::move(chat_template).value();
  } else if (chat_template.status().code() != ErrorCode::kNotFound) {
    return chat_template.status();
  }
  return text;
}

}  // namespace

Result<LoadedModel> load_model(const ModelFile& file, ModelConfig config, const ModelOptions& options,
                               const MemoryPlan& plan, size_t kv_budget_bytes) {
  // Large models load the tokenizer before the weights, not at the same time. Little time is lost, because the time for
  // a tokenizer does not grow with the weights, and a bad tokenizer is reported at once.
  constexpr size_t kLargeBytes = size_t{2} << 30;
  if (plan.weights_bytes > kLargeBytes) {
    TRY_ASSIGN(LoadedModel loaded, load_text(file));
    TRY_ASSIGN(loaded.model, load_language_model(file, std::move(config), options, plan, kv_budget_bytes));
    return loaded;
  }
  // Runs in get() if the system cannot start a thread.
  std::future<Result<LoadedModel>> text =
      std::async(std::launch::async | std::launch::deferred, [&] { return load_text(file); });
  Result<std::unique_ptr<LanguageModel>> model =
      load_language_model(file, std::move(config), options, plan, kv_budget_bytes);
  TRY_ASSIGN(LoadedModel loaded, text.get());
  TRY(file.check_unchanged());  // a change of the file may be the cause of the error
  TRY_ASSIGN(loaded.model, std::move(model));
  return loaded;
}

void add_template_end(const ChatTemplate& chat_template, Tokenizer& tokenizer) {
  const std::string after = text_after_answer(chat_template);
  const size_t begin = after.find_first_not_of(" \t\r\n");
  if (begin == after.npos) return;
  const Tokens ids = tokenizer.encode(std::string_view(after).substr(begin), TextOrigin::kTemplate);
  if (ids.empty() || !tokenizer.is_special(ids.front())) return;
  const bool harmony = tokenizer.token_bytes(ids.front()) == "<|end|>" && tokenizer.find_token("<|return|>");
  const std::vector<TokenId>& ends = tokenizer.end_of_turn();
  if (!harmony && std::ranges::find(ends, ids.front()) == ends.end()) tokenizer.add_end_of_turn(ids.front());
}

}  // namespace ibid
