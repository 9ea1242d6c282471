// Explains why cached tokens had to be prefilled again: where the prompt first differs from the conversation's tokens,
// and the probable cause. Pure functions.
#pragma once

#include <cstddef>

#include "base/json_fwd.h"
#include "ibid/turn.h"
#include "runtime/prompt/prompt_delta.h"
#include "runtime/prompt/transcript.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

// Explains why only delta.n_keep of the n_held cached positions stay.
LostPrefix explain_lost_prefix(const PromptDelta& delta, const Transcript& transcript, const Json& messages,
                               const Tokenizer& tokenizer, size_t n_held);

// Explains why n_tokens unchanged tokens of the transcript are prefilled again from position n_found on.
LostPrefix explain_missing_rows(LostCause cause, size_t n_tokens, size_t n_found, const Transcript& transcript,
                                const Json& messages);
// True for causes of missing KV or states, where the tokens did not change.
bool is_missing_rows(LostCause cause);

}  // namespace ibid
