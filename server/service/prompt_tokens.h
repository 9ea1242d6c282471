// Prompts that need the model's tokenizer: pieces of texts and tokens, and texts to be filled in the middle. Pure
// functions.
#pragma once

#include "base/result.h"
#include "runtime/engine/engine_state.h"
#include "server/service/request.h"
#include "tokenizer/tokenizer.h"

namespace ibid::serve {

// True if the vocabulary has tokens for filling in the middle.
bool can_infill(const Tokenizer& tokenizer);

// Converts a prompt of PromptPieces or an Infill to tokens; other prompts stay as they are. Error: kUnsupported if the
// vocabulary has no tokens for filling in the middle.
Status tokenize_prompt(const Engine& engine, std::optional<Prompt>& prompt);

}  // namespace ibid::serve
