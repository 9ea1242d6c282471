// The router of a mixture of experts: which experts a token goes to, and how much each of them counts.
//
// It is a pure function of one row of logits, without state or memory of its own, and safe to call from any thread.
// Of two experts that are equally good, the one with the lower number is chosen. Experts come out in the order of
// their numbers, which is the order in which their outputs are added (model/forward/moe_block.h).
// Sources: Shazeer et al. 2017 (top-k gating); DeepSeek-V3 technical report 2024 (sigmoid scores, a bias that takes
// part in the choice alone, groups).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "model/config/moe.h"

namespace ibid {

struct ExpertChoice {
  uint32_t expert;
  float weight;
};

// Floats of scratch that route() needs.
inline size_t route_scratch_floats(const RouterRule& rule) { return 2 * rule.n_experts + rule.n_groups; }

// Chooses for one row. chosen: [n_experts_active], filled in the order of the experts' numbers.
//   logits: [n_experts]; choice_bias: [n_experts] finite, added to the scores while experts are chosen and not to
//   their weights, or empty; scratch: [route_scratch_floats(rule)]
// Returns false when a logit is not finite. Then the choice means nothing: the first experts are returned, with
// weight 0.
// REQUIRES: 1 <= n_experts_active <= n_experts, n_groups divides n_experts, the active groups have n_experts_active
// experts or more, and groups of one expert are not grouped (n_groups < n_experts, or 1).
bool route(const RouterRule& rule, std::span<const float> logits, std::span<const float> choice_bias,
           std::span<float> scratch, std::span<ExpertChoice> chosen);

}  // namespace ibid
