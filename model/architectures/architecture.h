// Architecture: one row of kArchitectures (model/architectures/architectures.cc). A row has the properties of a family
// of models that the metadata of its files do not contain. Plain data; read_config() combines a row and a file into a
// ModelConfig.
#pragma once

#include <span>
#include <string_view>

#include "model/config/config.h"
#include "model/tensors/tensor_table.h"

namespace ibid {

// The container formats (GGUF, Hugging Face) whose files have a property.
enum class In : uint8_t { kNeither, kGguf, kHf, kBoth };

// Which layers use the sliding window of a file's metadata, unless the file lists these layers (layer_types).
enum class Windows : uint8_t {
  kNone,  // no layers, even if the file has a window
  kAll,
  kAllOfGguf,    // all layers if the file is a GGUF; no layers if it is a config.json
  kUpperLayers,  // layers from max_window_layers on, if use_sliding_window is set
  kPeriod,       // all layers except every Architecture::window_period-th one
  kWithoutRope,  // layers without rope, if use_sliding_window is set
  kChunks,       // no layers; layers with rope attend only within chunks, unless the file lists the layers
};

// Which layers rotate queries and keys (RoPE), and by which rule.
enum class RopeLayers : uint8_t {
  kNone,  // no layers: positions are learned
  kAll,
  kWindowed,   // layers with a window; all layers if no layer has one
  kTwoRules,   // layers with a window use the second rule, the others the first
  kListed,     // the layers that no_rope_layers lists; without a list, all layers except every fourth one
  kIfNamed,    // all layers, unless position_embedding_type names another kind
  kIfTheta,    // all layers, if the file has a theta
  kIfEnabled,  // no layers, unless use_mem_rope is set
  kNever,      // no layers, and positions are not learned either
};

inline bool is_in(In in, bool gguf) { return in == In::kBoth || in == (gguf ? In::kGguf : In::kHf); }

// Properties of the recurrent layers of a family.
struct RecurrentFamily {
  RecurrentRule rule = RecurrentRule::kNone;  // kNone: no recurrent layers
  OutputGate gate = OutputGate::kGateThenNorm;
  FusedInputs fused = FusedInputs::kQkv;  // order of the fused inputs in checkpoints (Hugging Face)
  FusedInputs gguf_fused = FusedInputs::kQkv;
  bool tiled_in_gguf = false;              // GGUF: head h reads key head h % n_key_heads (tiled_heads)
  bool beside_attention = false;           // every layer has attention and a recurrent mixer
  bool without_attention = false;          // no layer has attention
  bool common_blocks = false;              // some layers run shared blocks before their mixers (CommonBlocks)
  bool gguf_folds_factors = false;         // GGUF weights contain the factors of the blocks' inputs and outputs
  bool one_block = false;                  // each layer has only one of: mixer, attention, MLP, experts
  float norm_eps = 0;                      // epsilon of the norms of recurrent layers; 0: the model's epsilon
  NormPlaces norms = NormPlaces::kBefore;  // norm places of recurrent layers
};

struct Architecture {
  std::string_view gguf_name;      // general.architecture in GGUF
  std::string_view hf_model_type;  // model_type in config.json
  // Values of general.architecture that the converter writes for models without and with experts; empty: gguf_name.
  std::string_view written_dense = {}, written_moe = {};
  std::string_view written_recurrent = {};  // the name for recurrent models; empty: written_dense or written_moe

  // --- files
  std::span<const TensorName> tensor_names = {};  // tensor names that replace those in the tensor table
  const char* hf_prefix = "model.";               // replaces '@' in the names of a complete checkpoint
  // Files where RoPE pairs the rows 2 i and 2 i + 1 of a head. In other files it pairs i and i + head_dim / 2.
  In adjacent_pairs = In::kNeither;
  In norms_minus_one = In::kNeither;  // files that store norm weights minus 1
  In qkv_by_group = In::kNeither;     // files whose fused q|k|v lists for each KV head its queries, key and value
  In transposed = In::kNeither;       // files that store matrices of the layers as [in, out]
  bool gguf_splits_gate_up = false;   // GGUF has separate gate and up even if checkpoints have them fused

  // --- norms
  NormKind norm = NormKind::kRms;
  NormPlaces norm_places = NormPlaces::kBefore;
  QkNorm qk_norm = QkNorm::kNone;
  bool qk_norm_may_be_absent = false;  // queries and keys are not normed if the file lacks the tensors
  bool latent = false;                 // latent attention
  bool attention_gate = false;         // attention's output is multiplied by sigmoid(W_attn_gate h)
  bool gate_beside_query = false;      // wq holds for each head its query, then its gate
  bool qk_norm_after_rope = false;
  bool value_may_be_key = false;  // GGUF only: a layer without a value tensor uses its keys as values
  bool value_norm = false;        // each value is divided by its magnitude, separately per head
  bool scaled_layers = false;     // x may be multiplied by a learned number after each layer

  // --- positions
  Windows windows = Windows::kNone;
  size_t window_period = 0;
  // True: the GGUF lists windows by layer, and always has the keys for heads and rope of windowed layers and for the
  // width of layer inputs. False: it has a period of windows, and the other keys only if they are needed.
  bool gguf_by_layer = false;
  RopeLayers rope_layers = RopeLayers::kAll;
  double rotary_share = 1;             // rotated share of a head, if config.json has none
  bool rotary_share_is_fixed = false;  // config.json cannot override rotary_share
  bool yarn_truncates = true;          // for GGUF, which has no key: YaRN rounds the ends of its range to whole pairs
  bool grows_without_rope = false;     // if the file requests it, queries of layers without rope are scaled by position
  double windowed_theta = 0;           // for kTwoRules: default theta of windowed layers; 0: the theta of other layers

  float attention_scale = 0;  // factor of attention scores, if the file has none; 0: head_dim^-1/2
  // A GGUF with this number of layers scales scores by (dim / heads)^-1/2; GGUF has no key for this. 0: no such GGUF.
  size_t gguf_wide_scale_layers = 0;

  // --- MLP
  size_t gguf_default_cutoff_layers =
      0;  // number of leading layers that cut 95 % of their MLP gates, if a GGUF lists no cutoffs
  Activation::Kind activation = Activation::Kind::kSilu;
  bool gated = true;
  bool parallel = false;  // default if the file has no key; true: attention and MLP read the same x

  // --- experts, if the file has any
  RouterScores router_scores = RouterScores::kSoftmax;  // default if the file has no key
  In router_normalizes = In::kNeither;  // files where weights of chosen experts are divided by their sum by default
  size_t shared_experts = 0;            // number of shared experts if the file has no key
  bool weighs_inputs = false;           // router weights scale the inputs of experts instead of their outputs
  bool moe_beside_mlp = false;          // experts and MLP both read x, each through its own norm
  bool clamped_swiglu = false;
  In experts_interleaved = In::kNeither;  // files whose fused gate|up of an expert alternates rows of gate and up
  In experts_transposed = In::kNeither;   // files that store float experts as [in, out]

  RecurrentFamily recurrent = {};

  // --- factors
  bool embed_scale_is_sqrt_dim = false;
  bool logits_are_divided = false;                 // logits are divided by the metadata's scale, instead of multiplied
  float attention_softcap = 0, logit_softcap = 0;  // default soft caps, if the file has no key
};

// The rows of families with recurrent layers (recurrent_families.cc), with the tensor names of their files.
std::span<const Architecture> recurrent_families();

}  // namespace ibid
