#include "model/load_chat_template.h"

#include <utility>

#include "tokenizer/loading/gguf_vocabulary.h"
#include "weights/model_file.h"

namespace ibid {

Result<ChatTemplate> load_chat_template(const ModelFile& file, const TemplateBudget& budget) {
  TRY_ASSIGN(std::optional<ChatTemplateText> text, find_chat_template(file));
  if (!text) return Status(ErrorCode::kNotFound, file.path() + " has no chat template");
  Result<ChatTemplate> compiled = ChatTemplate::compile(text->source, budget, std::move(text->variables));
  if (!compiled.ok()) return Status(compiled.status().code(), file.path() + ": " + compiled.status().message());
  return compiled;
}

}  // namespace ibid
