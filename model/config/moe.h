// MoeRule: a mixture of experts as data: how rows choose their experts, and the form of an expert.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/layout/panel.h"

namespace ibid {

// How the scores of experts are computed from the router's logits.
enum class RouterScores : uint8_t {
  kSoftmax,          // the softmax of all logits
  kSoftmaxOfChosen,  // experts are chosen by logit; weights: softmax over the chosen logits only
  kSigmoid,          // sigmoid of each logit
  kSigmoidOfChosen,  // experts are chosen by logit; weights: sigmoid of the chosen logits
};

struct RouterRule {
  RouterScores scores = RouterScores::kSoftmax;
  size_t n_experts = 0;         // E in shapes
  size_t n_experts_active = 0;  // k in shapes: active experts per token
  // Experts may form n_groups groups of consecutive experts. Then experts are chosen only from the n_groups_active
  // groups with the best scores; the score of a group is the sum of its two best experts' scores.
  size_t n_groups = 1;
  size_t n_groups_active = 1;
  bool normalized = false;      // the weights of the chosen experts are divided by their sum
  float smallest_sum = 1e-20f;  // lower limit of the sum by which `normalized` divides
  float weight_scale = 1.0f;    // factor of the chosen experts' weights, after `normalized`
};

struct MoeRule {
  RouterRule router;
  size_t ffn_dim = 0;          // F in shapes: width of an expert
  size_t shared_ffn_dim = 0;   // F in shapes: width of the shared expert; 0: no shared expert
  bool weighs_inputs = false;  // expert(weight h) instead of weight * expert(h)
  Activation activation;       // f of an expert W_down (f(W_gate h) * W_up h)
  bool gated = true;           // false: an expert is W_down f(W_up h)
  float swiglu_limit = 0;      // if not 0, f is Kernels::clamped_swiglu with this limit
  float swiglu_alpha = 1.702f;
};

// Weights of one expert. Biases are empty if the model has none.
struct Expert {
  PackedMatrix w_gate, w_up;            // [F, D]
  PackedMatrix w_down;                  // [D, F]
  std::span<const float> b_gate, b_up;  // [F]
  std::span<const float> b_down;        // [D]
};

struct MoeWeights {
  PackedMatrix router;                  // [E, D]
  std::span<const float> router_bias;   // [E]   optional
  std::span<const float> choice_bias;   // [E]   optional
  std::span<const float> expert_scale;  // [E]   optional: another factor of an expert's weight
  std::vector<Expert> experts;          // [E]
  Expert shared;                        // empty: no shared expert
  PackedMatrix shared_gate;             // [1, D] optional
  // Only for experts beside an MLP (mix_experts_beside() of model/forward/architecture_steps.h).
  std::span<const float> router_scale;                    // [D]
  std::span<const float> norm, post_norm, mlp_post_norm;  // [D]
};

}  // namespace ibid
