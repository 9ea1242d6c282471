// Mixture of experts: each row goes through the few experts that its router chooses (route()), and
// through a shared expert if the model has one.
//
//   out = sum over the chosen experts e of weight_e * expert_e(h), in the order of their numbers, then + shared(h)
//   expert(h) = W_down (f(W_gate h + b_gate) * (W_up h + b_up)) + b_down, or as MoeRule says
//   or, where MoeRule::weighs_inputs, of expert_e(weight_e h): its gate and up are multiplied by weight_e
//   shared(h) is an expert that every row uses, times sigmoid(w_shared_gate h) where the model has such a gate
//
// Rows are gathered by expert, so that each expert in use is read once for all of its rows, and the others are not
// read. The sums of a row, their order and so its bits depend on that row's own choice alone: not on the other
// rows, nor on how the work was shared.
// Sources: Shazeer et al. 2017; Jiang et al. 2024 (Mixtral); Dai et al. 2024 (DeepSeekMoE: shared experts).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/parallel.h"
#include "kernels/ops/linear.h"
#include "model/config/moe.h"

namespace ibid {

// --- The router: which experts a token goes to, and how much each of them counts.
//
// It is a pure function of one row of logits, without state or memory of its own, and safe to call from any thread.
// Of two experts that are equally good, the one with the lower number is chosen. Experts come out in the order of
// their numbers, which is the order in which their outputs are added.
// Sources: Shazeer et al. 2017 (top-k gating); DeepSeek-V3 technical report 2024 (sigmoid scores, a bias that takes
// part in the choice alone, groups).

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

// --- The block.

// The rows of a pass that go to one expert, and the place of the input of its w_down.
struct ExpertUse {
  const Expert* expert;
  size_t n_rows;
  const uint32_t* rows;   // [n_rows] ascending; nullptr: all rows of the pass
  const float* weights;   // [n_rows]; nullptr: 1
  LinearInput gated;      // [n_rows, F]
};

// Scratch of the block. It owns no memory: allocate() does.
struct MoeBuffers {
  // The size of the largest pass, and which inputs some layer needs in int8.
  struct Sizes {
    size_t dim = 0;
    size_t max_rows = 0;
    size_t own_rows = 0;   // of a pass in which every worker has all rows to itself
    int n_threads = 1;
    bool quantized_h = false, quantized_gated = false, quantized_shared_gated = false;
  };
  // `allocate` gives out 64-byte aligned memory, or nullptr when it only counts.
  static MoeBuffers lay_out(const MoeRule& rule, const Sizes& sizes,
                            const std::function<std::byte*(size_t bytes)>& allocate);

  Rows logits;                // [T, E]
  Rows shared_gate;           // [T, 1]
  ExpertChoice* choices;      // [T, k] when the rows are shared
  LinearInput gated;          // [slots, F]: each expert's rows side by side, from a multiple of kRowGroup on
  LinearInput shared_gated;   // [T, F of the shared expert]

  // One worker's own.
  struct OfThread {
    ExpertChoice* choices;    // [own_rows, k]
    float* router_scratch;    // [E + route_scratch_floats()]
    size_t* counts;           // [E]
    uint32_t* rows;           // [T, k]
    float* weights;           // [T, k]
    float* shared_weights;    // [T]
    ExpertUse* uses;          // [E + 1]
    LinearInput gathered;     // [kMoeTileRows, D]
    Rows tile;                // [kMoeTileRows, kMoeTilePanels * kPanelRows]
  };
  std::vector<OfThread> own;  // [n_threads]
};

// The rows and panels that are multiplied at a time: enough rows to make up for unpacking a panel, few enough to
// stay in the cache.
inline constexpr size_t kMoeTileRows = 128;
inline constexpr size_t kMoeTilePanels = 32;

// One worker's view of the pass.
struct MoeStep {
  const Worker& worker;
  const LinearContext& linear;  // its scratch is wide enough for D and every F
  const LinearInput& h;         // [T, D] norm(x); in int8 as well where an expert's weights are quantised
  const LinearInput& router_h;  // [T, D] what the router reads: h, or another norm of x
  bool alone;                   // h is the worker's own copy; else everybody's
  Range rows;                   // whose experts it chooses: all of them when alone, else its share
  Rows out;                     // [T, D]
};

// Called by every worker with its own step; contains barriers. h must be complete (barrier) before the call, and the
// caller puts a barrier before anybody reads `out`.
// False when the router of one of step.rows gave a number that is not finite: then `out` means nothing.
bool moe_block(const MoeStep& step, const MoeRule& rule, const MoeWeights& w, MoeBuffers& buffers);

}  // namespace ibid
