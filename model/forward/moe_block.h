// Mixture of experts: each row passes through the few experts that its router chooses (route()), and through a shared
// expert if the model has one.
//   out = sum over the chosen experts e of weight_e * expert_e(h), in the order of their numbers, then + shared(h)
//   expert(h) = W_down (f(W_gate h + b_gate) * (W_up h + b_up)) + b_down, or as MoeRule says
//   if MoeRule::weighs_inputs, expert_e(weight_e h) instead: its gate and up are multiplied by weight_e
//   shared(h) is an expert applied to every row, times sigmoid(w_shared_gate h) if the model has such a gate
// Rows are gathered by expert, so that each chosen expert is read once for all its rows, and the other experts are not
// read. The bits of a row depend only on its own choice of experts, not on other rows or on the number of workers.
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

// --- The router: chooses the experts of a token and their weights.
//
// A pure function of one row of logits; thread-safe. Among experts with equal scores it chooses the one with the lowest
// number. Experts are returned in ascending order, the order in which their outputs are added. Sources: Shazeer et al.
// 2017 (top-k gating); DeepSeek-V3 technical report 2024 (sigmoid scores, a bias for the choice only, groups).

struct ExpertChoice {
  uint32_t expert;
  float weight;
};

// Number of floats of scratch memory that route() needs.
inline size_t route_scratch_floats(const RouterRule& rule) { return 2 * rule.n_experts + rule.n_groups; }

// Chooses the experts of one row. chosen: [n_experts_active], filled in ascending order of expert.
//   logits: [n_experts]; choice_bias: [n_experts] finite, added to the scores for the choice but not for the weights,
//   or empty; scratch: [route_scratch_floats(rule)]
// Returns false if a logit is not finite; then `chosen` holds the first experts with weight 0.
// REQUIRES: 1 <= n_experts_active <= n_experts, n_groups divides n_experts, the active groups have at least
// n_experts_active experts, and groups have two or more experts (n_groups < n_experts, or 1).
bool route(const RouterRule& rule, std::span<const float> logits, std::span<const float> choice_bias,
           std::span<float> scratch, std::span<ExpertChoice> chosen);

// --- The block.

// The rows of a pass that one expert computes, and where its gated values go: the input of its w_down.
struct ExpertUse {
  const Expert* expert;
  size_t n_rows;
  const uint32_t* rows;  // [n_rows] ascending; nullptr: all rows of the pass
  const float* weights;  // [n_rows] router weights; nullptr: all are 1
  LinearInput gated;     // [n_rows, F]
};

// Scratch memory of the block, owned by the caller: lay_out() takes it from `allocate`.
struct MoeBuffers {
  // Size of the largest pass, and which inputs are also needed in int8.
  struct Sizes {
    size_t dim = 0;
    size_t max_rows = 0;
    size_t own_rows = 0;  // largest number of rows at which every worker computes all rows
    int n_threads = 1;
    bool quantized_h = false, quantized_gated = false, quantized_shared_gated = false;
  };
  // allocate() returns 64-byte aligned memory; or nullptr, if the caller only counts the bytes.
  static MoeBuffers lay_out(const MoeRule& rule, const Sizes& sizes,
                            const std::function<std::byte*(size_t bytes)>& allocate);

  Rows logits;               // [T, E]
  Rows shared_gate;          // [T, 1]
  ExpertChoice* choices;     // [T, k] used if workers share the rows
  LinearInput gated;         // [slots, F] each expert has consecutive rows, from a multiple of kRowGroup on
  LinearInput shared_gated;  // [T, F of the shared expert]

  // Buffers of one worker.
  struct OfThread {
    ExpertChoice* choices;  // [own_rows, k]
    float* router_scratch;  // [E + route_scratch_floats()] row of logits, then the scratch of route()
    size_t* counts;         // [E]
    uint32_t* rows;         // [T, k]
    float* weights;         // [T, k]
    float* shared_weights;  // [T]
    ExpertUse* uses;        // [E + 1]
    LinearInput gathered;   // [kMoeTileRows, D]
    Rows tile;              // [kMoeTileRows, kMoeTilePanels * kPanelRows]
  };
  std::vector<OfThread> own;  // [n_threads]
};

// Rows and panels multiplied at a time: enough to amortise unpacking a panel, few enough to stay in the cache.
inline constexpr size_t kMoeTileRows = 128;
inline constexpr size_t kMoeTilePanels = 32;

// One worker's part of the mixture of experts.
struct MoeStep {
  const Worker& worker;
  const LinearContext& linear;  // the scratch of `linear` is wide enough for D and every F
  const LinearInput& h;         // [T, D] norm(x); also in int8 if the weights of an expert are quantised
  const LinearInput& router_h;  // [T, D] the input of the router: h, or another norm of x
  bool computes_all;            // h is this worker's own copy, which it computes completely; false: all workers share h
  Range rows;                   // rows whose experts this worker chooses: all if `computes_all`, else its share
  Rows out;                     // [T, D]
};

// Computes the block. Every worker calls it with its own step; contains barriers. REQUIRES: all workers have written h
// (barrier). The caller runs a barrier before it reads `out`.
// Returns false if the router's logits of one of step.rows are not finite; then `out` is unspecified.
bool moe_block(const MoeStep& step, const MoeRule& rule, const MoeWeights& w, MoeBuffers& buffers);

}  // namespace ibid
