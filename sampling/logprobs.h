// How likely the model itself found a token that was sampled: log-probabilities of the softmax over the vocabulary,
// before temperature, biases, penalties, cuts and constraints (as OpenAI's logprobs). They say how likely the model
// finds its answer, not how likely the sampler was to give it.
#pragma once

#include <cstddef>
#include <span>

#include "ibid/token.h"

namespace ibid {

inline constexpr size_t kMaxTopLogprobs = 20;

// Of `id` and the n_top likeliest (fewer when fewer are possible). O(vocab). The same bits on every machine: our
// own exp and log, summed in order of id in double (relative error of the sum below vocab * 2^-52).
// REQUIRES: no NaN and no +infinity among the logits, a finite one of `id`, n_top <= kMaxTopLogprobs.
TokenLogprobs token_logprobs(std::span<const float> logits, TokenId id, size_t n_top);

}  // namespace ibid
