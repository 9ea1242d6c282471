// The prompt of a conversation without a template: the concatenated contents of its messages, which the model
// continues. Special tokens in them are recognised. The tokenizer's prefix of texts (a BOS) comes first, unless the
// text begins with it. A first message with "ids" instead of content gives the tokens of the whole prompt.
//
// Answers are messages like others, so text after an answer keeps the sampled tokens before it. Pure functions.
#pragma once

#include <optional>
#include <string>

#include "base/json_limits.h"
#include "base/result.h"
#include "ibid/token.h"
#include "runtime/prompt/prompt_delta.h"
#include "runtime/prompt/transcript.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

// Return a message of a plain prompt, from its text or from its tokens.
Json plain_message(std::string text);
Json plain_message(const Tokens& ids);

// The tokens of a plain prompt; nullopt: the message has no "ids", or they are not valid token ids.
std::optional<Tokens> plain_ids(const Json& message);

// Plans a plain prompt. Errors: kInvalidArgument for a token outside the vocabulary, naming it, for a prompt without
// tokens, and for a message with neither text nor tokens.
Result<PromptDelta> plan_plain_prompt(const Tokenizer& tokenizer, const Json& messages, const Transcript& transcript);

}  // namespace ibid
