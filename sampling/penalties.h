// Biases, and penalties on what prompt and answer hold already: a sampler applies them to logits before it makes
// probabilities of these. sampler_options.h has the formulas, their order and their sources.
#pragma once

#include <span>
#include <vector>

#include "sampling/sampler_options.h"
#include "sampling/token_history.h"

namespace ibid {

// Changes `row`, the logits by id, none of them NaN or +infinity. No penalty makes a logit infinite, so only a bias
// can forbid an id; -infinity stays what it is. Costs the ids that are biased, counted or repeated, each at most
// once per step. `repeats` is scratch.
// REQUIRES: options were checked; dry_breakers are sorted; the history keeps what the options look back on.
void apply_penalties(const SamplerOptions& options, const TokenHistory& history,
                     std::vector<RepeatIndex::Repeat>& repeats, std::span<float> row);

}  // namespace ibid
