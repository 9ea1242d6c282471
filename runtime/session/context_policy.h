// Policies for a conversation that no longer fits the context. By default the turn fails with needed and available
// tokens. Other policies drop the oldest turns, or cut the middles of texts. The rest is prefilled again, so that it is
// exact: no cached KV changes its position. Every removal is reported in the turn.
//
// Pure functions on messages. The caller counts tokens.
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_limits.h"
#include "base/result.h"
#include "ibid/session_options.h"
#include "ibid/turn.h"

namespace ibid {

// kInvalidArgument for a value outside the enum.
Status check_when_full(WhenFull policy);

// Share of the context that a prompt fills after turns were dropped or texts cut, if it can be reached. Well below 1,
// so that the next turns need not drop or cut again.
inline constexpr double kFilledAfterwards = 0.6;
// Share of the context kept free for the answer, if it can be reached; less for an answer of fewer tokens.
inline constexpr double kFreeForAnswer = 0.25;
// A policy applies if less than this share of the context is left for the answer.
inline constexpr double kLeastForAnswer = 1.0 / 16;

// The first message of each turn: user messages that do not follow a user message, in order.
std::vector<size_t> turn_begins(const Json& messages);

// Limits for prompt and answer.
struct ContextLimits {
  size_t max_tokens = 0;       // size of the context in tokens
  size_t n_answer = SIZE_MAX;  // maximum tokens of the answer
};

// True if a prompt leaves enough of the context for an answer, so that no policy applies.
bool leaves_an_answer(size_t n_prompt, const ContextLimits& limits);

struct FittedMessages {
  Json messages;
  std::set<size_t> pinned;   // new numbers of the pinned messages
  size_t first_changed = 0;  // messages before this index are unchanged
  LeftOut left_out;
};

// Makes `messages` fit, that is count_tokens(result, first_changed) <= limits.max_tokens:
// - kDropOldestTurns: drops the fewest turns after which at most kFilledAfterwards of the context is filled; if that
//   cannot be reached, the fewest after which kFreeForAnswer is free; else the fewest after which the prompt fits.
// - kCutNewestMessage: if the other messages fill at most kFilledAfterwards of the context, keeps as much of the newest
//   message as fits beside the answer, which gets the least of: a quarter of the context, half of what the other
//   messages leave, limits.n_answer. If they fill more, cuts all texts but those of system and pinned messages to the
//   same number of bytes, the largest with which at most kFilledAfterwards is filled. If that cannot be reached, drops
//   old turns too.
// Errors: kContextFull if nothing makes it fit, with numbers and remedies; those of count_tokens. REQUIRES: policy is
// not kError; the last message is a question.
Result<FittedMessages> fit_messages(
    WhenFull policy, const Json& messages, const std::set<size_t>& pinned, const ContextLimits& limits,
    const std::function<Result<size_t>(const Json& messages, size_t first_changed)>& count_tokens);

// kContextFull for a conversation of n_tokens that no policy can shorten, with numbers and remedies.
Status context_full(size_t n_tokens, size_t max_tokens);

}  // namespace ibid
