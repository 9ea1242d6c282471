// Architecture: one row of kArchitectures (model/architectures/architectures.cc): the properties of a family of models
// that the metadata of its files do not contain. Plain data; read_config() combines a row and a file into a
// ModelConfig.
#pragma once

#include <span>
#include <string_view>

#include "model/config/config.h"
#include "model/tensors/tensor_table.h"

namespace ibid {

// Containers in which a property holds.
enum class In : uint8_t { kNeither, kGguf, kHf, kBoth };

// Layers that use the window in a file's metadata, unless the file lists them (layer_types).
enum class Windows : uint8_t {
  kNone,  // none, even if the file has a window
  kAll,
  kAllOfGguf,    // all in GGUF, none in config.json
  kUpperLayers,  // from max_window_layers on, if use_sliding_window is set
  kPeriod,       // all except every Architecture::window_period-th layer
  kWithoutRope,  // layers without rope, if use_sliding_window is set
  kChunks,       // no windows; layers with rope attend within chunks only, unless the file lists the layers
};

// Layers that rotate queries and keys, and their rule.
enum class RopeLayers : uint8_t {
  kNone,  // none: positions are learned
  kAll,
  kWindowed,  // layers with a window; all layers if no layer has one
  kTwoRules,  // layers with a window use the second rule, the others the first
  kListed,    // no_rope_layers, else all except every fourth layer
  kIfNamed,   // all, unless position_embedding_type differs
  kIfTheta,   // all, if the file has a theta
  kIfAsked,   // none, unless use_mem_rope is set
  kNever,     // none, and positions are not learned either
};

inline bool is_in(In in, bool gguf) { return in == In::kBoth || in == (gguf ? In::kGguf : In::kHf); }

// Properties of the recurrent layers of a family.
struct RecurrentFamily {
  RecurrentRule rule = RecurrentRule::kNone;  // kNone: no recurrent layers
  OutputGate gate = OutputGate::kGateThenNorm;
  FusedInputs fused = FusedInputs::kQkv;  // in checkpoints
  FusedInputs gguf_fused = FusedInputs::kQkv;
  bool tiled_in_gguf = false;       // value heads are ordered as RecurrentMixer::tiled_heads, in the file and in memory
  bool beside_attention = false;    // every layer has attention and a recurrent mixer
  bool alone = false;               // no layer has attention
  bool common_blocks = false;       // some layers run shared blocks before their mixers (CommonBlocks)
  bool gguf_folds_factors = false;  // GGUF has the model's factors multiplied into its weights
  bool one_block = false;           // a layer is only one of: mixer, attention, MLP, experts
  float norm_eps = 0;               // 0: the model's
  NormPlaces norms = NormPlaces::kBefore;  // of recurrent layers
};

struct Architecture {
  std::string_view gguf_name;      // general.architecture
  std::string_view hf_model_type;  // config.json: model_type
  // general.architecture of converted models without and with experts, if it is not gguf_name.
  std::string_view written_dense = {}, written_moe = {};
  std::string_view written_recurrent = {};  // likewise, for models with recurrent layers

  // --- files
  std::span<const TensorName> names = {};  // tensor names that differ from the tensor table's
  const char* hf_prefix = "model.";        // replaces '@' in the names of a complete checkpoint
  In adjacent_pairs = In::kNeither;        // RoPE rotates neighbouring rows of wq and wk
  In norms_minus_one = In::kNeither;       // norm weights omit the 1 that is added to them
  In qkv_by_group = In::kNeither;          // fused q|k|v: for each KV head its queries, key, value
  In transposed = In::kNeither;            // matrices of the layers are [in, out]
  bool gguf_cuts_gate_up = false;          // GGUF splits tensors that checkpoints have fused

  // --- norms
  NormKind norm = NormKind::kRms;
  NormPlaces norm_places = NormPlaces::kBefore;
  QkNorm qk_norm = QkNorm::kNone;
  bool qk_norm_may_be_absent = false;  // the norm is not applied if the file lacks its tensors
  bool latent = false;                 // latent attention
  bool attention_gate = false;         // attention's output is multiplied by sigmoid(W_attn_gate h)
  bool gate_beside_query = false;      // wq holds for each head its query, then its gate
  bool qk_norm_after_rope = false;
  bool value_may_be_key = false;  // GGUF: layers without a value tensor use their keys as values
  bool value_norm = false;        // values are divided by their magnitude, per head
  bool scaled_layers = false;     // x may be multiplied by a learned number after each layer

  // --- positions
  Windows windows = Windows::kNone;
  size_t window_period = 0;
  // GGUF always lists, by layer, windows and the heads and rope of windowed layers, and the width of layer inputs;
  // false: GGUF has a period of windows, and the other keys only if needed.
  bool gguf_by_layer = false;
  RopeLayers rope_layers = RopeLayers::kAll;
  double rotary_share = 1;             // rotated share of a head, if config.json has none
  bool rotary_share_is_fixed = false;  // config.json cannot override it
  bool yarn_truncates = true;          // for GGUF, which has no key for it
  bool grows_without_rope = false;     // queries of layers without rope are scaled by position, if the file allows it
  double windowed_theta = 0;           // kTwoRules, if the file has none; 0: theta of the other layers

  float attention_scale = 0;  // of scores, if the file has none; 0: head_dim^-1/2
  // Converted models with this many layers scale scores by (dim / heads)^-1/2, for which GGUF has no key. 0: none do.
  size_t gguf_wide_scale_layers = 0;

  // --- MLP
  size_t gguf_cut_layers = 0;  // first layers with gates cut at share 0.95, if GGUF has no cutoffs
  Activation::Kind activation = Activation::Kind::kSilu;
  bool gated = true;
  bool parallel = false;  // if the file has no key

  // --- experts, if the file has any
  RouterScores router_scores = RouterScores::kSoftmax;  // if the file has no key
  In router_normalizes = In::kNeither;  // likewise: weights of the chosen experts are divided by their sum
  size_t shared_experts = 0;            // if the file has no key
  bool weighs_inputs = false;           // weights scale the experts' inputs, not their outputs
  bool moe_beside_mlp = false;          // experts and MLP both read x, each through its own norm
  bool clamped_swiglu = false;
  In experts_interleaved = In::kNeither;  // fused gate|up alternates rows of gate and up
  In experts_transposed = In::kNeither;   // float experts are [in, out]

  RecurrentFamily recurrent = {};

  // --- factors
  bool embed_scale_is_sqrt_dim = false;
  bool logits_are_divided = false;                 // logits are divided by the scale in the metadata, not multiplied
  float attention_softcap = 0, logit_softcap = 0;  // if the file has none
};

// The rows of families with recurrent layers (recurrent_families.cc); includes the names of tensors in their files.
std::span<const Architecture> recurrent_families();

}  // namespace ibid
