// TransformerWeights: every weight of a model, bound by the tensor table, checked, and packed into panels in
// one huge-page arena. After load() nothing points into the model file any more.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/arena.h"
#include "base/parallel.h"
#include "base/result.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/panel.h"
#include "model/architecture/config.h"
#include "model/forward/activations.h"
#include "model/forward/moe_block.h"
#include "model/forward/recurrent_mixer.h"

namespace ibid {

class ModelFile;

// A vector of a layer (norm weight, bias), widened to float; empty when the model does not have it.
// Room for whole vectors of 16.
using WeightVector = std::span<const float>;

struct LayerWeights {
  WeightVector attn_norm, attn_norm_bias;  // [D]
  PackedMatrix wq, wk, wv;                 // [H d, D], [G d, D], [G d, D]
  WeightVector bq, bk, bv;                 // [H d], [G d], [G d]
  WeightVector q_norm, k_norm;             // [d] per head, or [H d], [G d]
  WeightVector sinks;                      // [H]
  PackedMatrix wo;                         // [D, H d]
  WeightVector bo;                         // [D]
  PackedMatrix w_attn_gate;                // [H d, D]
  WeightVector b_attn_gate;                // [H d]
  LatentWeights latent;                    // beside or in place of wq, wk and wv
  RecurrentWeights recurrent;              // beside attention or in place of it
  CommonBlockWeights common;               // of layers that use a block in common, or have its weights
  PackedMatrix laurel_left, laurel_right;  // [R, D], [D, R]
  WeightVector laurel_norm;                // [D]
  WeightVector attn_post_norm;             // [D]
  WeightVector ffn_norm, ffn_norm_bias;    // [D]
  PackedMatrix w_gate, w_up;               // [F, D]
  WeightVector b_gate, b_up;               // [F]
  PackedMatrix w_down;                     // [D, F]
  WeightVector b_down;                     // [D]
  MoeWeights moe;                          // in place of these or beside them, of layers with experts
  WeightVector ffn_post_norm;              // [D]
  LayerInputWeights input;
  WeightVector out_scale;                  // [1]
  AltUpWeights altup;
};

class TransformerWeights {
 public:
  // Binds and packs. Numerics::kReference expands every matrix to float panels.
  // Errors: those of find_source(); kNonFinite (a float or the scale of a block that is not finite, its tensor
  // named); kOutOfMemory.
  static Result<TransformerWeights> load(const ModelFile& file, const ModelConfig& config, Numerics numerics,
                                         ThreadTeam& team);

  // What load() will make, known before anything is allocated. Errors: those of find_source().
  struct Plan {
    size_t bytes = 0;
    QuantizedInputs quantized;  // which inputs of linear layers meet a quantised matrix in some layer
    size_t lookup_bytes = 0;    // of the matrices of which a token reads one row, or, of idle experts, nothing
    size_t layer_weights = 0;   // values of the matrices of the layers that a token is multiplied by
  };
  static Result<Plan> plan(const ModelFile& file, const ModelConfig& config, Numerics numerics);

  PackedMatrix embed;              // [V, D]; rows are looked up, and it is the head of a tied model
  PackedMatrix lm_head;            // [V, D]; equal to embed when tied
  WeightVector lm_head_bias;       // [V]
  PackedMatrix positions;          // [trained_context, D]; empty: positions are not learned
  WeightVector final_norm, final_norm_bias;  // [D]
  PackedMatrix layer_embed;        // [V', L P]; rows are looked up
  PackedMatrix layer_inputs;       // [L P, D]
  WeightVector layer_input_norm;   // [P]
  std::vector<StreamWeights> streams;  // [n - 1] of the streams behind stream 0
  std::vector<LayerWeights> layers;

  size_t bytes() const { return arena_.used(); }

 private:
  Arena arena_;
};

}  // namespace ibid
