// ModelConfig: an architecture as data. read_config() (model/architectures/architectures.h) reads it from a model file.
// Only code in model/architectures branches on an architecture's name.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ibid/engine_options.h"
#include "kernels/kernels.h"
#include "kernels/ops/rope.h"
#include "model/config/architecture_steps.h"
#include "model/config/latent_attention.h"
#include "model/config/moe.h"
#include "model/config/recurrent_mixer.h"

namespace ibid {

struct TensorName;  // model/tensors/tensor_table.h

enum class NormKind : uint8_t { kRms, kLayer };

// Where a layer applies its norms. kBefore: x += f(norm(x)); kAfter: x += norm(f(x)); kBoth: x += norm(f(norm(x))).
enum class NormPlaces : uint8_t { kBefore, kAfter, kBoth };

// Norms of queries and keys. kPerHead: each head is normed, with one weight for all heads; kEachHead: each head is
// normed, with its own weight; kWhole: all heads are normed together; kUnweighted: each head is normed without a
// weight, only in layers with RoPE.
enum class QkNorm : uint8_t { kNone, kPerHead, kEachHead, kWhole, kUnweighted };

inline constexpr size_t kMaxRopes = 2;
inline constexpr size_t kNoRope = static_cast<size_t>(-1);
inline constexpr size_t kNoState = static_cast<size_t>(-1);
inline constexpr size_t kNoLayer = static_cast<size_t>(-1);

// How the output of a block f is added: x = kept x + factor f(norm(x)), or x = kept norm(x) + factor f(norm(x)).
struct Residual {
  bool of_norm = false;
  float kept = 1, factor = 1;
  bool is_plain() const { return !of_norm && kept == 1 && factor == 1; }
  bool operator==(const Residual&) const = default;
};

// Which blocks a layer has: all, or only its mixers (attention, recurrent), only a dense MLP, or only experts.
enum class LayerBlocks : uint8_t { kAll, kMixer, kMlp, kExperts };

struct LayerConfig {
  LayerBlocks blocks = LayerBlocks::kAll;
  bool attends = true;             // the layer has attention; false: it has a recurrent mixer, or neither
  size_t state_layer = kNoState;   // index of the layer's recurrent state in the cache (KvLayout)
  size_t common_layer = kNoLayer;  // CommonBlocks: layer that stores the shared weights; kNoLayer: not used
  size_t adapter = 0;              // index of the layer's adapter in common_layer
  size_t window = 0;               // sliding attention span in positions; 0: the whole sequence
  bool chunked = false;            // attention is limited to the current chunk of ModelConfig::attention_chunk
  size_t rope = 0;                 // index into ModelConfig::ropes; kNoRope: not rotated
  size_t n_kv_heads = 0;           // G in shapes
  size_t head_dim = 0;             // d in shapes
  size_t kv_layer = 0;             // KV layer of the cache (KvLayout) whose keys and values the layer reads
  bool writes_kv = true;           // the layer stores the keys and values of kv_layer; false: an earlier layer does
  bool value_is_key = false;       // values are the keys before norm and rotation: v = Wk h
  size_t ffn_dim = 0;              // F of this layer's MLP; 0: no MLP
  bool has_experts = false;        // the layer has experts instead of an MLP or beside it
  // Each gate becomes max(gate - cutoff, 0). cutoff: mean of the row's gates + gate_cutoff standard deviations.
  std::optional<float> gate_cutoff;
  Activation activation;
};

struct ModelConfig {
  std::string architecture;  // name of the architecture in the file, for messages

  size_t vocab_size = 0;       // V in shapes
  size_t n_layers = 0;         // L in shapes
  size_t dim = 0;              // D in shapes
  size_t n_heads = 0;          // H in shapes
  size_t trained_context = 0;  // positions the model was trained for

  // --- norms
  NormKind norm = NormKind::kRms;
  NormPlaces norm_places = NormPlaces::kBefore;
  float norm_eps = 0;
  QkNorm qk_norm = QkNorm::kNone;
  bool qk_norm_after_rope = false;
  bool value_norm = false;  // v = v / rms(v), per head

  // --- attention
  float attention_scale = 0;       // factor of attention scores; usually d^-1/2
  bool scale_by_depth = false;     // scores of layer l are divided by l + 1
  LatentAttention latent;          // if used, each layer has one KV head, whose rows are latents
  bool attention_gate = false;     // attention's output is multiplied by sigmoid(W_attn_gate h)
  bool gate_beside_query = false;  // the file's wq holds for each head its query, then its gate
  float attention_softcap = 0;     // scores s become cap tanh(s / cap); 0: no cap
  std::vector<RopeRule> ropes;     // indexed by LayerConfig::rope, at most kMaxRopes
  bool learned_positions = false;  // x = E[token] + P[position]
  size_t attention_chunk = 0;      // chunked layers: positions per chunk, a multiple of the page size
  // Queries at position p are multiplied by 1 + growth ln(1 + floor((p + shift) / step)). growth 0: no scaling.
  double query_growth = 0;
  size_t query_growth_step = 1, query_growth_shift = 0;
  bool query_growth_without_rope = false;  // query_growth applies only to layers without rope

  // --- recurrent layers
  RecurrentMixer recurrent;                          // properties of all layers that have a recurrent state
  CommonBlocks common;                               // shared blocks that run before the mixer of some recurrent layers
  NormPlaces recurrent_norms = NormPlaces::kBefore;  // norm places of recurrent layers without attention

  // --- MLP
  bool gated = true;      // down(f(gate h) * up h), else down(f(up h))
  bool parallel = false;  // attention and MLP read the same x: x += attention(x) + mlp(x)

  MoeRule moe;                       // router and form of the experts, in layers that have them
  bool experts_interleaved = false;  // the file's fused gate|up of an expert alternates rows of gate and up
  bool experts_transposed = false;   // float experts are [in, out] in the file

  // --- beside the layers
  LayerInputs layer_inputs;    // per-layer embeddings
  AltUp altup;                 // several streams instead of one x
  size_t laurel_rank = 0;      // rank of the low-rank bypass of attention; 0: none
  bool scaled_layers = false;  // x is multiplied by a learned number after each layer that has one

  // --- factors
  float embed_scale = 1;                                          // factor of the embeddings
  float residual_scale = 1;                                       // factor of the outputs of attention and MLP
  Residual attention_residual, recurrent_residual, mlp_residual;  // factors in addition to residual_scale
  float attention_input_scale = 1;  // factor of h, contained in the factors of scores and output; divides biases
  float gate_scale = 1;             // factor of the gates of MLPs
  float logit_scale = 1;
  float logit_softcap = 0;  // logits l become cap tanh(l / cap); 0: no cap

  // --- storage in the file
  std::span<const TensorName> tensor_names;  // tensor names that differ from the tensor table's
  std::string name_prefix;                   // replaces '@' in tensor names
  bool adjacent_pairs = false;   // RoPE rotates rows 2 i and 2 i + 1 of wq and wk; packing reorders them into halves
  bool norms_minus_one = false;  // norm weights in the file are stored minus 1
  bool qkv_by_group = false;     // fused q|k|v is stored by KV head (its queries, key, value); else all q, all k, all v
  bool transposed = false;       // matrices of the layers are [in, out]
  bool tied = false;             // the embedding is also the LM head, even if the file has another LM head

  std::optional<Pooling> pooling;  // set for embedding models: how hidden states become one vector

  std::vector<LayerConfig> layers;  // [L]

  size_t q_dim(size_t layer) const { return n_heads * layers[layer].head_dim; }
  size_t kv_dim(size_t layer) const { return layers[layer].n_kv_heads * layers[layer].head_dim; }
  NormPlaces norms_of(size_t layer) const {
    const LayerConfig& of = layers[layer];
    return of.attends || of.state_layer == kNoState ? norm_places : recurrent_norms;
  }
  bool has_post_norms(size_t layer) const { return norms_of(layer) != NormPlaces::kBefore; }
  bool has_mlp(size_t layer) const { return layers[layer].ffn_dim != 0 || layers[layer].has_experts; }
  // Width of the input of wo.
  size_t attended_dim(size_t layer) const { return latent.used() ? n_heads * latent.value_dim : q_dim(layer); }
  // Index of the first layer with attention; 0 if no layer has attention.
  size_t first_attending() const {
    const auto found = std::ranges::find_if(layers, [](const LayerConfig& layer) { return layer.attends; });
    return found == layers.end() ? 0 : static_cast<size_t>(found - layers.begin());
  }
  bool recurs() const {
    return std::ranges::any_of(layers, [](const LayerConfig& layer) { return layer.state_layer != kNoState; });
  }
  bool attends() const { return !layers.empty() && layers[first_attending()].attends; }
  bool has_experts() const { return moe.router.n_experts != 0; }
  // Returns the maximum of `width` (q_dim, kv_dim, ...) over all layers.
  size_t widest(size_t (ModelConfig::*width)(size_t layer) const) const {
    size_t widest = 0;
    for (size_t l = 0; l < layers.size(); ++l) widest = std::max(widest, (this->*width)(l));
    return widest;
  }
  size_t mlp_dim(size_t layer) const { return std::max(layers[layer].ffn_dim, common.ffn_dim); }
  size_t n_kv_heads_of(size_t layer) const { return layers[layer].n_kv_heads; }
  size_t head_dim_of(size_t layer) const { return layers[layer].head_dim; }
  bool has_experts_beside_mlp() const {
    return std::ranges::any_of(layers, [](const LayerConfig& l) { return l.has_experts && l.ffn_dim != 0; });
  }
  // True if the outputs of attention and MLP are changed before they are added to x.
  bool changes_residuals() const {
    return norm_places != NormPlaces::kBefore || residual_scale != 1 || !attention_residual.is_plain() ||
           !recurrent_residual.is_plain() || !mlp_residual.is_plain();
  }
  // True if a step before the product of gate and up needs whole rows of gate and up, not only parts of rows.
  bool reads_whole_gates() const {
    return common.used() ||
           std::ranges::any_of(layers, [](const LayerConfig& layer) { return layer.gate_cutoff.has_value(); });
  }
};

}  // namespace ibid
