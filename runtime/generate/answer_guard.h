// The guard of answers without a chosen length. It ends answers that repeat themselves, and limits answers to a quarter
// of the context, so that no single answer fills it. Small models often find no end by themselves.
//
// chat, ask and the server use it; the library's default is no guard.
#pragma once

#include <algorithm>
#include <cstddef>

#include "ibid/turn.h"

namespace ibid {

inline void guard_answer(TurnOptions& options, size_t max_seq_len) {
  options.max_tokens = std::max<size_t>(1, max_seq_len / 4);
  options.stop_repetition = true;
}

}  // namespace ibid
