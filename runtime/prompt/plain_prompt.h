// The prompt of a conversation without a template: a text that the model goes on with. Its messages' contents, one
// behind the other, are the prompt, and special tokens in them are meant. What the tokenizer puts in front of every
// text (a BOS) stands in front of it, unless the text says it itself. A first message with "ids" in place of a
// content gives the ids themselves, and is the whole prompt.
//
// Answers are messages like others, so a text that goes on behind an answer keeps the ids that were sampled.
// Pure functions.
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

// The messages of such a prompt.
Json plain_message(std::string text);
Json plain_message(const Tokens& ids);

// The ids that such a message gives; nothing: it gives none, or what are no ids of any vocabulary.
std::optional<Tokens> plain_ids(const Json& message);

// Errors: kInvalidArgument for an id that the vocabulary does not have, naming it, for a prompt without ids, and for a
// message that is neither.
Result<PromptDelta> plan_plain_prompt(const Tokenizer& tokenizer, const Json& messages, const Transcript& transcript);

}  // namespace ibid
