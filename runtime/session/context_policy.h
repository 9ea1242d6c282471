// What happens to a conversation that no longer fits the context. By default the turn is an error with both
// numbers. If the session's options say so, its oldest turns go, or the middles of its texts. What stays is
// read again, so that it is exact: no stored row ever changes its position. Nothing is left out silently: the turn says
// what was.
//
// Pure functions on messages. The caller counts their tokens.
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

// kInvalidArgument for a number that is none of them.
Status check_when_full(WhenFull policy);

// How much of the context a prompt fills after turns had to go, if that can be reached. It is well below 1, so that
// turns do not have to go every time, nor texts to be cut.
inline constexpr double kFilledAfterwards = 0.6;
// The share of the context that is kept free for the answer, if that can be reached. Less is kept free for an
// answer of fewer tokens.
inline constexpr double kFreeForAnswer = 0.25;
// A policy makes room when less than this share of the context is left for the answer.
inline constexpr double kLeastForAnswer = 1.0 / 16;

// The first message of each turn: user messages that follow no other user message, in order.
std::vector<size_t> turn_begins(const Json& messages);

// What a conversation has to fit into.
struct ContextRoom {
  size_t max_tokens = 0;         // of the context
  size_t n_answer = SIZE_MAX;    // the most tokens that the answer will have
};

// Whether a prompt leaves enough of the context for an answer, so that no policy has to make room.
bool leaves_an_answer(size_t n_prompt, const ContextRoom& room);

struct FittedMessages {
  Json messages;
  std::set<size_t> pinned;  // their numbers now
  size_t first_changed = 0; // messages in front of it are what they were
  LeftOut left_out;
};

// Makes `messages` fit, that is count_tokens(result, first_changed) <= room.max_tokens:
//  - kDropOldestTurns: the fewest turns go that leave kFilledAfterwards of the context filled; where that cannot be
//    reached, the fewest that leave room for the answer (kFreeForAnswer); and else the fewest that leave what fits.
//  - kCutNewestMessage: where the other messages fill at most kFilledAfterwards of the context, as much of the newest
//    message stays as fits beside the answer: a quarter of the context is the answer's, or half of what the other
//    messages leave, or room.n_answer, whichever is least. Where they fill more, every text but those of system and
//    pinned messages keeps the same number of bytes at most, the largest that leaves kFilledAfterwards filled. Where
//    that cannot be reached, old turns go as well.
// Errors: kContextFull when nothing of this makes it fit, with the numbers and the ways out; those of count_tokens.
// REQUIRES: policy is not kError; the last message is a question.
Result<FittedMessages> fit_messages(
    WhenFull policy, const Json& messages, const std::set<size_t>& pinned, const ContextRoom& room,
    const std::function<Result<size_t>(const Json& messages, size_t first_changed)>& count_tokens);

// kContextFull for a conversation of n_tokens that no policy makes shorter: the numbers and the ways out.
Status context_full(size_t n_tokens, size_t max_tokens);

}  // namespace ibid
