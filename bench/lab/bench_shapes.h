// How many of everything the parts of the benchmark measure. The parts do them, and the estimate of the time counts
// them.
#pragma once

#include <cstddef>

namespace ibid {

// bench/lab/rates.h
inline constexpr size_t kRateDecodeTokens = 48;
inline constexpr size_t kRateTurnTokens = 44;
// A short prefill takes as long as the clock's and the neighbours' noise: it is repeated for this long.
inline constexpr double kLeastSampled_s = 0.2;
inline constexpr size_t kMostSamples = 50;

// bench/lab/chat_turns.h: short turns behind a system message,
inline constexpr size_t kSystemLengths[] = {0, 1000, 3500};
inline constexpr size_t kChatTurns = 8;
inline constexpr size_t kChatReplyTokens = 24;
inline constexpr size_t kChatTurnTokens = 80;  // at most, of message and reply
// and a conversation that grows.
inline constexpr size_t kConversationTurns = 10;
inline constexpr size_t kConversationMessage = 60;
inline constexpr size_t kConversationAnswer = 440;
inline constexpr size_t kConversationStep = kConversationMessage + kConversationAnswer;
// The first exchange, which is not measured: two messages, one of them the template's system message.
inline constexpr size_t kConversationStart = 2 * kConversationMessage + kConversationAnswer;

// bench/lab/turn_curve_bench.h
inline constexpr size_t kCurveAnswer = 16;

}  // namespace ibid
