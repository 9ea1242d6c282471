// Loads the weights of a model: finds each tensor by the tensor table, checks it, and packs it into panels in one
// huge-page arena. The result does not refer to the model file.
#pragma once

#include <cstddef>

#include "base/parallel.h"
#include "base/result.h"
#include "ibid/numerics.h"
#include "model/config/config.h"
#include "model/tensors/transformer_weights.h"

namespace ibid {

class ModelFile;

// Inputs of linear layers that are also needed in int8, because a quantised weight reads them. The comments name these
// weights.
struct QuantizedInputs {
  bool h = false;                                   // wq, wk, wv, w_gate, w_up, lm_head
  bool attended = false;                            // wo
  bool gated = false;                               // w_down
  bool q_latent = false, kv_latent = false;         // wq_b; LatentExpansion::values
  bool expert_gated = false, shared_gated = false;  // w_down of experts, and of the shared expert
  bool laurel = false, layer_gated = false;         // laurel_right, LayerInputWeights::out
  bool mixed = false, recurrent_low = false;  // RecurrentWeights::w_out and w_scan; second factors of low-rank matrices
};

// The sizes of the result of load_weights(), computed before anything is allocated.
struct WeightPlan {
  size_t bytes = 0;
  QuantizedInputs quantized;  // inputs that some quantised matrix reads
  size_t lookup_bytes = 0;    // bytes not read per token: matrices looked up by row, and inactive experts
  size_t layer_weights = 0;   // number of values in the layers' matrices that one token is multiplied by
};
// Computes the sizes of the weights without loading them. Errors: those of find_source().
Result<WeightPlan> plan_weights(const ModelFile& file, const ModelConfig& config, Numerics numerics);

// Loads all weights. Numerics::kReference expands every matrix to float panels. Errors: those of find_source();
// kNonFinite (a float or the scale of a block is not finite; names the tensor); kOutOfMemory.
Result<TransformerWeights> load_weights(const ModelFile& file, const ModelConfig& config, Numerics numerics,
                                        ThreadTeam& team);

}  // namespace ibid
