// MoeRule: a mixture of experts as data: how rows choose their experts, and what an expert is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/layout/panel.h"

namespace ibid {

// What the logits become before experts are chosen.
enum class RouterScores : uint8_t {
  kSoftmax,           // the softmax of all logits
  kSoftmaxOfChosen,   // chosen by their logits; the weights are the softmax of the chosen ones alone
  kSigmoid,           // each logit for itself
  kSigmoidOfChosen,   // chosen by their logits; the weights are the sigmoids of those
};

struct RouterRule {
  RouterScores scores = RouterScores::kSoftmax;
  size_t n_experts = 0;          // E
  size_t n_experts_active = 0;   // k, of every token
  // Experts may be in groups of n_experts / n_groups neighbours; then only those of the best n_groups_active groups
  // can be chosen. A group is as good as the sum of its two best experts.
  size_t n_groups = 1;
  size_t n_groups_active = 1;
  bool normalized = false;       // the weights of the chosen ones are divided by their sum
  float smallest_sum = 1e-20f;   // which counts as at least this much
  float weight_scale = 1.0f;     // the weights are multiplied by it in the end
};

struct MoeRule {
  RouterRule router;
  size_t ffn_dim = 0;         // F, of one expert
  size_t shared_ffn_dim = 0;  // of the shared expert; 0: there is none
  bool weighs_inputs = false; // expert(weight h) in place of weight expert(h)
  Activation activation;      // expert: W_down (f(W_gate h) * W_up h),
  bool gated = true;          // or without a gate W_down f(W_up h)
  float swiglu_limit = 0;     // not 0: Kernels::clamped_swiglu in its place
  float swiglu_alpha = 1.702f;
};

// The weights of one expert. Biases are empty where the model has none.
struct Expert {
  PackedMatrix w_gate, w_up;             // [F, D]
  PackedMatrix w_down;                   // [D, F]
  std::span<const float> b_gate, b_up;   // [F]
  std::span<const float> b_down;         // [D]
};

struct MoeWeights {
  PackedMatrix router;                   // [E, D]
  std::span<const float> router_bias;    // [E]   optional
  std::span<const float> choice_bias;    // [E]   optional
  std::span<const float> expert_scale;   // [E]   optional: what the weight of an expert is multiplied by in the end
  std::vector<Expert> experts;           // [E]
  Expert shared;                         // empty: none
  PackedMatrix shared_gate;              // [1, D] optional
  // For experts beside an MLP (mix_experts_beside() of model/forward/architecture_steps.h).
  std::span<const float> router_scale;                   // [D]
  std::span<const float> norm, post_norm, mlp_post_norm; // [D]
};

}  // namespace ibid
