// Functions that need only a request and its model, not a session: they compute the text, the tokens and the size of
// the prompt, and convert to tokens what the request gives as text (pieces of the prompt, infill, keys of logit_bias).
//
// Errors: kUnsupported if the model has no template, or no tokens for filling in the middle; those of
// ChatTemplate::render(); kInvalidArgument.
#pragma once

#include <cstddef>
#include <optional>

#include "base/marked_text.h"
#include "base/result.h"
#include "runtime/engine/engine_state.h"
#include "server/service/request.h"
#include "tokenizer/tokenizer.h"

namespace ibid::serve {

// True if the vocabulary has tokens for filling in the middle.
bool can_infill(const Tokenizer& tokenizer);

// Converts a prompt of PromptPieces or an Infill to tokens; other prompts stay as they are.
Status tokenize_prompt(const Engine& engine, std::optional<Prompt>& prompt);
Tokens ids_of_pieces(const Tokenizer& tokenizer, const PromptPieces& pieces);

// Adds text_biases to the sampler's biases of tokens.
void set_text_biases(const Tokenizer& tokenizer, AnswerRequest& request);

// Returns the variables of the template, tools included.
Json variables_for(const AnswerRequest& request);
// Renders the prompt of these messages with the request's tools and variables.
Result<MarkedText> rendered(const Engine& engine, const AnswerRequest& request, const Json& messages);
// Return the request's prompt, or its number of tokens. Both functions prepare the messages
// (server/service/system_messages.h), and convert prompts of several parts to tokens.
Result<MarkedText> prompt_text(const Engine& engine, AnswerRequest& request);
Result<Tokens> encode_prompt_ids(const Engine& engine, AnswerRequest& request);
// Return the approximate size of the prompt's texts, without rendering them.
size_t bytes_of_prompt(const Prompt& prompt);
size_t bytes_of_prompt(const AnswerRequest& request);

}  // namespace ibid::serve
