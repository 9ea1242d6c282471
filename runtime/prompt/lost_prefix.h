// LostPrefix: says why ids that had keys and values are not used again: where the prompt first differs from what
// the conversation held, and what probably made the difference. It is for people who wonder why a turn took long.
#pragma once

#include <cstddef>
#include <string>

#include "base/json_limits.h"
#include "runtime/prompt/prompt_delta.h"
#include "runtime/prompt/transcript.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

// A guess from the text around the first difference.
enum class LostCause {
  kMessageChanged,   // a message is not what it was
  kThinkingRemoved,  // the template shows thinking of the last answer only
  kDateChanged,      // a date or a time in front of everything
  kToolsChanged,     // other tools, or the same in another order
  kTemplate,         // the template writes something else there now
  kOtherTokens,      // the same text, encoded otherwise
};
// "the message was changed", "its thinking was removed" ...
std::string_view lost_cause_text(LostCause cause);

struct LostPrefix {
  size_t n_tokens = 0;      // ids with keys and values that were given up
  size_t message = 0;       // the first message whose rendering differs (its number in the history)
  size_t byte = 0;          // the first differing byte of the rendered text
  size_t token = 0;         // the first differing id's position
  std::string was, now;     // up to 40 bytes of either text from there on
  std::string was_token, now_token;  // the text of the ids at that position
  LostCause cause = LostCause::kTemplate;
  std::string to_string() const;  // one sentence
};

// Says what was lost when of n_held positions only delta.n_keep stay.
LostPrefix explain_lost_prefix(const PromptDelta& delta, const Transcript& transcript, const Json& messages,
                               const Tokenizer& tokenizer, size_t n_held);

}  // namespace ibid
