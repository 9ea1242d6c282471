// The text of a model's chat template, as its files have it, and the special tokens that the template may ask for.
// Compiling it is model/load_model.h's.
#pragma once

#include <optional>
#include <string>

#include "base/json_limits.h"
#include "base/result.h"

namespace ibid {

class ModelFile;

struct ChatTemplateText {
  std::string source;
  Json variables = Json::object();  // bos_token, eos_token ...: the texts of the file's special tokens
};

// From GGUF's tokenizer.chat_template, or from chat_template.jinja or tokenizer_config.json beside the weights. Nothing
// where the model has none. Errors: those of the file and of its JSON.
Result<std::optional<ChatTemplateText>> find_chat_template(const ModelFile& file);

}  // namespace ibid
