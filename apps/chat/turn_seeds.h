// The distance between the seeds of two turns of a conversation with --seed. Each turn has streams of random
// numbers of its own, one for each attempt at an answer, and this many before they meet the next turn's.
#pragma once

#include <cstdint>

namespace ibid {

inline constexpr uint64_t kSeedsOfATurn = 1000;

}  // namespace ibid
