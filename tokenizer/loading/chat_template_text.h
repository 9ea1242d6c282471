// The sources of a model's chat template, and the special tokens that it can use. model/load_model.h compiles the
// templates.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json_limits.h"
#include "base/result.h"
#include "weights/model_file.h"

namespace ibid {

struct ChatTemplateText {
  std::string source;
  std::string source_for_tools;     // the template "tool_use", for conversations with tools; empty: use `source`
  Json variables = Json::object();  // texts of the file's special tokens: bos_token, eos_token ...
  std::vector<std::string> warnings;
};

// Reads the templates from GGUF's tokenizer.chat_template and tokenizer.chat_template.tool_use, or from the files
// beside the weights, in this order: chat_template.jinja with additional_chat_templates/tool_use.jinja;
// tokenizer_config.json, with one text or a list of named ones; chat_template.json. nullopt if the model has no
// template. Errors: those of the file and of its JSON.
Result<std::optional<ChatTemplateText>> find_chat_template(const ModelFile& file);

}  // namespace ibid
