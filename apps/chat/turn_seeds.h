// Between the seeds of two turns of a conversation with --seed: each turn has a stream of random numbers of its own,
// and as many attempts at an answer before it meets the next one's.
#pragma once

#include <cstdint>

namespace ibid {

inline constexpr uint64_t kSeedsOfATurn = 1000;

}  // namespace ibid
