// What an answer cost and why it ended, as JSON: the pieces that several protocols have. Names are those of the
// protocols; what they have no name for stands in the object "ibid". Pure functions.
#pragma once

#include <span>
#include <string>

#include "base/json_limits.h"
#include "server/service/request.h"

namespace ibid {
class Tokenizer;
}

namespace ibid::serve {

// Tokens of all answers of a request. The prompt is the first answer's, which read it for all.
struct TokenCounts {
  size_t n_prompt = 0;      // cached ones included
  size_t n_cached = 0;
  size_t n_completion = 0;  // reasoning and markers included
  size_t n_reasoning = 0;   // of them; counted by encoding the reasoning's text
};
// `tokenizer`: the model's; nullptr: reasoning is not counted.
TokenCounts count_tokens(std::span<const Answer> answers, const Tokenizer* tokenizer);

// OpenAI's "usage" of chat completions and completions.
Json openai_usage(const TokenCounts& counts);
// llama.cpp's "timings".
Json llama_timings(const Turn& turn);
// {"prefilled", "cached", "from_disk", "read_again", "ttft_ms", "total_ms", "seed", "finish_reason", "stop_string",
// "lost_prefix": {"tokens", "message", "byte", "token", "cause"}, "left_out": {"messages", "bytes"}}: what of them
// there is. It shows no text of the prompt, because a lost prefix can be of another client's conversation.
Json ibid_details(const Turn& turn);

// OpenAI's finish_reason. An answer that began to repeat itself was cut, so it is "length"; "ibid" has our own word.
std::string openai_finish_reason(const Answer& answer);

}  // namespace ibid::serve
