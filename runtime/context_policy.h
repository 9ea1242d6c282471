// What becomes of a conversation that no longer fits the context: nothing (an error with both numbers), or, where
// the session's options say so, its oldest turns go, or the middle of its newest message. What stays is read
// again exactly: no position of a stored row is ever changed. Never silent: the turn says what was left out.
//
// Pure functions on messages; how many tokens they make is the caller's to say.
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "base/json_limits.h"
#include "base/result.h"
#include "runtime/turn.h"

namespace ibid {

enum class WhenFull {
  kError,            // kContextFull, before anything was computed
  kDropOldestTurns,  // whole turns, the oldest first; the system message, pinned messages and the newest turn stay
  kCutNewestMessage, // the middle of the newest message
};

// How much of the context is used when something had to go: so that it does not happen at every turn.
inline constexpr double kFilledAfterwards = 0.6;

// Whether a message has this role. Not by comparing it as JSON, which makes a value of the role, and that takes memory
// in a function that must not throw.
bool is_from(const Json& message, std::string_view role);

// The first message of each turn: user messages that follow no other user message, in order.
std::vector<size_t> turn_begins(const Json& messages);

struct FittedMessages {
  Json messages;
  std::set<size_t> pinned;  // their numbers now
  size_t first_changed = 0; // messages in front of it are what they were
  LeftOut left_out;
};

// Makes `messages` fit: the fewest turns dropped, or bytes cut, so that count_tokens(result, first_changed) is at most
// kFilledAfterwards * max_tokens. Errors: kContextFull when that cannot be reached by this policy (both numbers);
// those of count_tokens. REQUIRES: policy is not kError; the last message is a question.
Result<FittedMessages> fit_messages(
    WhenFull policy, const Json& messages, const std::set<size_t>& pinned, size_t max_tokens,
    const std::function<Result<size_t>(const Json& messages, size_t first_changed)>& count_tokens);

}  // namespace ibid
