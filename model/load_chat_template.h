// A model's own chat template, compiled.
#pragma once

#include "base/result.h"
#include "templates/chat_template.h"

namespace ibid {

class ModelFile;

// Its default variables are the file's special tokens. Errors: kNotFound when the model has no template;
// kTemplateSyntax with the file and the line; those of find_chat_template().
Result<ChatTemplate> load_chat_template(const ModelFile& file, const TemplateBudget& budget = {});

}  // namespace ibid
