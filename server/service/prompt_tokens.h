// Parts of requests that need the model's tokenizer: prompts of texts and tokens, texts to be filled in the middle,
// biases of texts. Pure functions.
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
Tokens ids_of_pieces(const Tokenizer& tokenizer, const PromptPieces& pieces);

// Adds text_biases to the sampler's biases of tokens.
void set_text_biases(const Tokenizer& tokenizer, AnswerRequest& request);

}  // namespace ibid::serve
