// TransformerWeights: every weight of a model as the forward pass reads it, packed into panels. Plain data that
// load_weights() fills (model/weights/load_weights.h); the tensor table names its members.
#pragma once

#include <span>
#include <vector>

#include "base/arena.h"
#include "kernels/layout/panel.h"
#include "model/config/config.h"

namespace ibid {

// A vector of a layer (norm weight, bias), converted to float and padded to whole vectors of 16; empty if the model has
// none.
using WeightVector = std::span<const float>;

struct LayerWeights {
  WeightVector attn_norm, attn_norm_bias;  // [D]
  PackedMatrix wq, wk, wv;                 // [H d, D], [G d, D], [G d, D]
  WeightVector bq, bk, bv;                 // [H d], [G d], [G d]
  WeightVector q_norm, k_norm;             // [d] for all heads, or [H d] and [G d]
  WeightVector sinks;                      // [H]
  PackedMatrix wo;                         // [D, H d]
  WeightVector bo;                         // [D]
  PackedMatrix w_attn_gate;                // [H d, D]
  WeightVector b_attn_gate;                // [H d]
  LatentWeights latent;                    // weights beside or instead of wq, wk and wv
  RecurrentWeights recurrent;              // weights beside or instead of attention
  CommonBlockWeights common;               // used if the layer runs a shared block or stores its weights
  PackedMatrix laurel_left, laurel_right;  // [R, D], [D, R]
  WeightVector laurel_norm;                // [D]
  WeightVector attn_post_norm;             // [D]
  WeightVector ffn_norm, ffn_norm_bias;    // [D]
  PackedMatrix w_gate, w_up;               // [F, D]
  WeightVector b_gate, b_up;               // [F]
  PackedMatrix w_down;                     // [D, F]
  WeightVector b_down;                     // [D]
  MoeWeights moe;                          // weights beside or instead of the MLP, in layers with experts
  WeightVector ffn_post_norm;              // [D]
  LayerInputWeights input;
  WeightVector out_scale;  // [1]
  AltUpWeights altup;
};

// The packed weights of a model, and the arena that owns their memory. Move-only.
struct TransformerWeights {
  PackedMatrix embed;                        // [V, D] looked up by row; if tied, also the LM head
  PackedMatrix lm_head;                      // [V, D]; equal to embed if tied
  WeightVector lm_head_bias;                 // [V]
  PackedMatrix positions;                    // [trained_context, D]; empty: no learned positions
  WeightVector final_norm, final_norm_bias;  // [D]
  PackedMatrix layer_embed;                  // [LayerInputs::vocab_size, L P] looked up by row
  PackedMatrix layer_inputs;                 // [L P, D]
  WeightVector layer_input_norm;             // [P]
  std::vector<StreamWeights> streams;        // [n - 1] without stream 0
  std::vector<LayerWeights> layers;

  Arena arena;  // memory of all members above

  size_t bytes() const { return arena.used(); }
};

}  // namespace ibid
