// Texts of a wanted number of tokens, and the ids of whole prompts: what conversations are measured with.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/json_limits.h"
#include "base/result.h"
#include "runtime/engine/engine.h"

namespace ibid {

// `lead` and then plain words, `n_tokens` ids or a few more. Other seeds give the words in another order, so that the
// texts begin to differ right behind `lead`.
std::string text_of_tokens(const Tokenizer& tokenizer, std::string_view lead, size_t n_tokens, size_t seed);

// The prompt of a conversation, rendered and tokenised from nothing. REQUIRES: the engine has a chat template.
// Errors: the template's.
Result<Tokens> prompt_of(const Engine& engine, const Json& messages);

// How many ids the template puts around the first user message, a system message of its own included.
Result<size_t> tokens_around_first_message(const Engine& engine);

}  // namespace ibid
