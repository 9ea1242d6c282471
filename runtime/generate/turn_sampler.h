// Makes a sampler from the options of a turn. Converts options given as text to tokens, and checks all options before
// any computation. Thread-safe: it has no state.
#pragma once

#include "base/result.h"
#include "ibid/turn.h"
#include "sampling/sampler.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

// O(1), with DRY O(vocab).
// Errors: kInvalidArgument with name, value and range, for sampler, dry_sequence_breakers and n_logprobs.
Result<Sampler> make_turn_sampler(const TurnOptions& options, const Tokenizer& tokenizer);

}  // namespace ibid
