// LostPrefix: says why ids that had keys and values are not used again: where the prompt first differs from what
// the conversation held, and what probably made the difference. It is for people who wonder why a turn took long.
// A pure function.
#pragma once

#include <cstddef>

#include "base/json_fwd.h"
#include "ibid/turn.h"
#include "runtime/prompt/prompt_delta.h"
#include "runtime/prompt/transcript.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

// Says what was lost when of n_held positions only delta.n_keep stay.
LostPrefix explain_lost_prefix(const PromptDelta& delta, const Transcript& transcript, const Json& messages,
                               const Tokenizer& tokenizer, size_t n_held);

// Says why n_tokens ids of the transcript are read again, from position n_found on, though they stay.
LostPrefix explain_missing_rows(LostCause cause, size_t n_tokens, size_t n_found, const Transcript& transcript,
                                const Json& messages);
// Whether a cause is one of those: nothing was said otherwise.
bool is_missing_rows(LostCause cause);

}  // namespace ibid
