// Architecture: one row of kArchitectures (model/architectures/architectures.cc). It says what a family of models has
// in common beyond the numbers in a file's metadata. Plain data; read_config() makes a ModelConfig from a row and a
// file.
#pragma once

#include <span>
#include <string_view>

#include "model/config/config.h"
#include "model/tensors/tensor_table.h"

namespace ibid {

// In which containers a field holds.
enum class In : uint8_t { kNeither, kGguf, kHf, kBoth };

// Which layers have the window that a file's metadata gives, unless the file lists them (layer_types).
enum class Windows : uint8_t {
  kNone,         // none: the key, if there is one, has no effect
  kAll,
  kAllOfGguf,    // likewise, and none of config.json
  kUpperLayers,  // from max_window_layers on, where use_sliding_window says so
  kPeriod,       // all but every Architecture::window_period-th layer
  kWithoutRope,  // layers without rope, where use_sliding_window says so
  kChunks,       // none, and attention ends at the borders of chunks: in layers with rope, unless the file lists them
};

// Which layers rotate queries and keys, and by which rule.
enum class RopeLayers : uint8_t {
  kNone,          // none: positions are learned
  kAll,
  kWindowed,      // layers with a window; all, where the model has no windows
  kTwoRules,      // layers with a window by the second rule, the others by the first
  kListed,        // no_rope_layers, else all but every fourth layer
  kIfNamed,       // all, unless position_embedding_type is another
  kIfTheta,       // all, where the file has a theta
  kIfAsked,       // none, unless use_mem_rope
  kNever,         // none, and positions are not learned either
};

inline bool is_in(In in, bool gguf) { return in == In::kBoth || in == (gguf ? In::kGguf : In::kHf); }

// What the recurrent layers of a family have in common.
struct RecurrentFamily {
  RecurrentRule rule = RecurrentRule::kNone;     // none: the family has no such layers
  OutputGate gate = OutputGate::kGateThenNorm;
  FusedInputs fused = FusedInputs::kQkv;         // in checkpoints
  FusedInputs gguf_fused = FusedInputs::kQkv;
  bool tiled_in_gguf = false;                    // heads of values stand in another order, and so in memory
  bool beside_attention = false;                 // every layer has both
  bool alone = false;                            // no layer attends
  bool common_blocks = false;                    // some layers have blocks in common in front of their mixers
  bool gguf_folds_factors = false;               // GGUF has the model's factors within its weights
  bool one_block = false;                        // a layer is a mixer, or attention, or an MLP, or experts
  float norm_eps = 0;                            // 0: the model's
  NormPlaces norms = NormPlaces::kBefore;        // of these layers
};

struct Architecture {
  std::string_view gguf_name;      // general.architecture
  std::string_view hf_model_type;  // config.json: model_type
  // The names in converted files where these are not gguf_name: for models without and with experts.
  std::string_view written_dense = {}, written_moe = {};
  std::string_view written_recurrent = {};       // likewise, with recurrent layers

  // --- files
  std::span<const TensorName> names = {};        // tensors that are not called as in the table
  const char* hf_prefix = "model.";              // what '@' stands for in the names of a whole checkpoint
  In adjacent_pairs = In::kNeither;              // RoPE rotates neighbouring rows of wq and wk
  In norms_minus_one = In::kNeither;             // norm weights are stored without their 1
  In qkv_by_group = In::kNeither;                // fused q|k|v: per KV head its queries, its key, its value
  In transposed = In::kNeither;                  // matrices of the layers are [in, out]
  bool gguf_cuts_gate_up = false;                // what a checkpoint has fused is two tensors in GGUF

  // --- norms
  NormKind norm = NormKind::kRms;
  NormPlaces norm_places = NormPlaces::kBefore;
  QkNorm qk_norm = QkNorm::kNone;
  bool qk_norm_may_be_absent = false;            // a file without these tensors has none
  bool latent = false;                           // latent attention
  bool attention_gate = false;                   // what attention gives is times sigmoid(W_attn_gate h)
  bool gate_beside_query = false;                // wq is of each head its query, its gate
  bool qk_norm_after_rope = false;
  bool value_may_be_key = false;                 // GGUF: a layer without the tensor of values makes them of its keys
  bool value_norm = false;                       // values are divided by their magnitude, per head
  bool scaled_layers = false;                    // x may be multiplied by a learned number after a layer

  // --- positions
  Windows windows = Windows::kNone;
  size_t window_period = 0;
  // GGUF has a list of the layers with windows, heads and rope of these, and the width of layer inputs, whatever they
  // are; else it has a period of windows, and the others where they are needed.
  bool gguf_by_layer = false;
  RopeLayers rope_layers = RopeLayers::kAll;
  double rotary_share = 1;                       // of a head, where config.json does not say
  bool rotary_share_is_fixed = false;            // whatever config.json says
  bool yarn_truncates = true;                    // in GGUF, which does not say
  bool grows_without_rope = false;               // queries of layers without rope grow, unless the file says not
  double windowed_theta = 0;                     // kTwoRules, where the file does not say; 0: as for the others

  float attention_scale = 0;                     // of scores, where the file does not say; 0: dim^-1/2 of a head
  // A converted model with this many layers scales scores by (dim / heads)^-1/2; GGUF has no key for that. 0: no
  // model does.
  size_t gguf_wide_scale_layers = 0;

  // --- MLP
  size_t gguf_cut_layers = 0;                    // first layers that cut their gates at 0.95, in GGUF that does not say
  Activation::Kind activation = Activation::Kind::kSilu;
  bool gated = true;
  bool parallel = false;                         // where the file does not say

  // --- experts, of files that count any
  RouterScores router_scores = RouterScores::kSoftmax;  // where the file does not say
  In router_normalizes = In::kNeither;           // likewise: the weights of the chosen ones are made to add up to 1
  size_t shared_experts = 0;                     // where the file does not say
  bool weighs_inputs = false;                    // weights of experts are those of their inputs
  bool moe_beside_mlp = false;                   // experts and MLP both read x, each through a norm of its own
  bool clamped_swiglu = false;
  In experts_interleaved = In::kNeither;         // fused gate|up: a row of one, a row of the other
  In experts_transposed = In::kNeither;          // experts of floats are [in, out]

  RecurrentFamily recurrent = {};

  // --- factors
  bool embed_scale_is_sqrt_dim = false;
  bool logits_are_divided = false;               // by the scale in the metadata, not multiplied
  float attention_softcap = 0, logit_softcap = 0;  // where the file does not say
};

// The rows whose layers are recurrent, all or some (recurrent_families.cc), with the names that their files have for
// tensors.
std::span<const Architecture> recurrent_families();

}  // namespace ibid
