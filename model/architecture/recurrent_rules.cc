#include "model/architecture/recurrent_rules.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "model/architecture/keys.h"
#include "model/weights/tensor_source.h"

namespace ibid {

namespace {

constexpr int64_t kMaxTaps = 64;
// Of all layers together, one GB: more than any model has, less than what would have to be refused elsewhere.
constexpr size_t kMaxStateFloats = size_t{1} << 28;

// What a layer has.
struct LayerKind {
  bool attends = false, recurs = false;
  LayerBlocks blocks = LayerBlocks::kAll;
};

constexpr LayerKind kAttention{true, false, LayerBlocks::kAll}, kRecurrent{false, true, LayerBlocks::kAll};

Status unsupported(const Hyperparameters& file, std::string_view kind) {
  return {ErrorCode::kUnsupported, file.file().path() + ": layer type '" + std::string(kind) +
                                       "' is not supported (supported: full_attention, attention, linear_attention, "
                                       "mamba, conv, mlp, moe)"};
}

Result<LayerKind> kind_of(const Hyperparameters& file, std::string_view name, const RecurrentFamily& family) {
  const LayerBlocks mixer = family.one_block ? LayerBlocks::kMixer : LayerBlocks::kAll;
  if (name == "attention" || name == "full_attention" || name == "*") return LayerKind{true, false, mixer};
  for (const std::string_view known : {"mamba", "linear_attention", "conv", "recurrent", "M"}) {
    if (name == known) return LayerKind{false, true, mixer};
  }
  if (family.common_blocks && name == "hybrid") return LayerKind{true, true, LayerBlocks::kAll};
  const bool one_block = family.one_block;
  if (one_block && (name == "mlp" || name == "-")) return LayerKind{false, false, LayerBlocks::kMlp};
  if (one_block && (name == "moe" || name == "E")) return LayerKind{false, false, LayerBlocks::kExperts};
  return unsupported(file, name);
}

// The layers of a list, counted from `first` on.
Result<std::vector<LayerKind>> attention_at(const Hyperparameters& file, const Key& key, int64_t first, size_t n) {
  std::vector<LayerKind> kinds(n, kRecurrent);
  TRY_ASSIGN(const auto listed, file.file().get_ints(file.key_of(key)));
  for (const int64_t layer : listed.value_or(std::vector<int64_t>())) {
    if (layer < first || layer >= first + static_cast<int64_t>(n)) {
      return file.bad(key, "an array with " + std::to_string(layer),
                      "layers " + std::to_string(first) + ".." + std::to_string(first + static_cast<int64_t>(n) - 1));
    }
    kinds[static_cast<size_t>(layer - first)] = kAttention;
  }
  return kinds;
}

Result<std::vector<LayerKind>> attention_every(size_t period, size_t offset, size_t n) {
  std::vector<LayerKind> kinds(n, kRecurrent);
  for (size_t l = 0; l < n; ++l) {
    if (l % period == offset % period) kinds[l] = kAttention;
  }
  return kinds;
}

// Where nothing lists the layers, those of gated delta rules have a period, and those of others all attend.
Result<std::vector<LayerKind>> attention_by_interval(const Hyperparameters& file, const RecurrentFamily& family,
                                                     size_t n) {
  constexpr size_t kUsualInterval = 4;
  if (family.rule != RecurrentRule::kGatedDelta) return std::vector<LayerKind>(n, kAttention);
  TRY_ASSIGN(const size_t interval, file.integer(keys::kFullInterval, 1, kMaxLayers, kUsualInterval));
  return attention_every(interval, interval - 1, n);
}

Result<std::vector<LayerKind>> kinds_of_letters(const Hyperparameters& file, const Key& key, const RecurrentFamily& family,
                                                size_t n) {
  TRY_ASSIGN(const std::optional<std::string> text, file.text(key));
  const std::string letters = text.value_or(std::string());
  if (letters.size() != n) {
    return file.bad(key, "'" + letters + "'", "a letter for each of " + std::to_string(n) + " layers");
  }
  std::vector<LayerKind> kinds(n);
  for (size_t l = 0; l < n; ++l) {
    TRY_ASSIGN(kinds[l], kind_of(file, std::string_view(letters).substr(l, 1), family));
  }
  return kinds;
}

Result<std::vector<LayerKind>> hf_kinds(const Hyperparameters& file, const RecurrentFamily& family, size_t n) {
  constexpr Key kTypes{"kinds of layers", "", "layer_types|layers_block_type"};
  constexpr Key kLetters{"letters of layers", "", "hybrid_override_pattern"};
  constexpr Key kIndices{"layers with attention", "", "attn_layer_indices|full_attn_idxs"};
  constexpr Key kIndicesFromOne{"layers with attention", "", "linear_attn_config.full_attn_layers"};
  constexpr Key kFlags{"kinds of layers", "", "attn_type_list"};
  constexpr Key kPeriod{"period of layers with attention", "", "attn_layer_period"};
  constexpr Key kOffset{"first layer with attention", "", "attn_layer_offset"};
  if (file.has(kLetters)) return kinds_of_letters(file, kLetters, family, n);
  if (file.has(kTypes)) {
    TRY_ASSIGN(const auto types, file.texts(kTypes, n));
    std::vector<LayerKind> kinds(n);
    for (size_t l = 0; l < n; ++l) {
      TRY_ASSIGN(kinds[l], kind_of(file, (*types)[l], family));
    }
    return kinds;
  }
  if (file.has(kIndices)) return attention_at(file, kIndices, 0, n);
  if (file.has(kIndicesFromOne)) return attention_at(file, kIndicesFromOne, 1, n);
  if (file.has(kFlags)) {
    TRY_ASSIGN(const auto flags, file.per_layer(kFlags, 0, 1, n));
    std::vector<LayerKind> kinds(n, kRecurrent);
    for (size_t l = 0; l < n; ++l) kinds[l] = (*flags)[l] == 1 ? kAttention : kRecurrent;
    return kinds;
  }
  if (file.has(kPeriod)) {
    TRY_ASSIGN(const size_t period, file.integer(kPeriod, 1, kMaxLayers));
    TRY_ASSIGN(const size_t offset, file.integer(kOffset, 0, kMaxLayers, size_t{0}));
    return attention_every(period, offset, n);
  }
  return attention_by_interval(file, family, n);
}

// A layer without heads of keys and values is recurrent, or where a layer is one block and has an MLP, that alone.
Result<std::vector<LayerKind>> gguf_kinds(const Hyperparameters& file, const RecurrentFamily& family, size_t n) {
  const auto heads = file.file().get_ints(file.key_of(keys::kNKvHeads));
  if (!heads.ok() || !*heads) return attention_by_interval(file, family, n);
  TRY_ASSIGN(const auto kv_heads, file.per_layer(keys::kNKvHeads, 0, kMaxWidth, n));
  TRY_ASSIGN(const auto widths, file.per_layer(keys::kFfnDim, 0, kMaxWidth, n));
  const LayerBlocks mixer = family.one_block ? LayerBlocks::kMixer : LayerBlocks::kAll;
  std::vector<LayerKind> kinds(n);
  for (size_t l = 0; l < n; ++l) {
    const bool attends = (*kv_heads)[l] != 0;
    kinds[l] = {attends, !attends, mixer};
    if (attends || !family.one_block) continue;
    const std::string router = "blk." + std::to_string(l) + ".ffn_gate_inp.weight";
    const bool routed = file.file().find_tensor(router) != nullptr;
    if (routed) kinds[l] = {false, false, LayerBlocks::kExperts};
    if (!routed && widths && (*widths)[l] != 0) kinds[l] = {false, false, LayerBlocks::kMlp};
  }
  return kinds;
}

// A width that files may leave to us: "auto", or nothing.
Result<size_t> width_or(const Hyperparameters& file, const Key& key, size_t usual) {
  const auto named = file.text(key);
  if (named.ok() && *named) return usual;
  return file.integer(key, 1, kMaxWidth, usual);
}

// The widths of what the layers widen to.
Result<size_t> expanded(const Hyperparameters& file, const ModelConfig& config) {
  constexpr Key kWidth{"width of recurrent layers", "ssm.inner_size", "mamba_d_ssm|mamba_intermediate"};
  constexpr Key kExpand{"expansion", "", "mamba_expand|expand"};
  constexpr size_t kUsualExpand = 2;
  TRY_ASSIGN(const size_t expand, file.integer(kExpand, 1, 64, kUsualExpand));
  return width_or(file, kWidth, expand * config.dim);
}

Status read_mamba2(const Hyperparameters& file, ModelConfig& config) {
  constexpr Key kHeadDim{"head_dim of recurrent layers", "", "mamba_d_head|mamba_head_dim|mamba_headdim"};
  constexpr Key kOwnHeadDim{"head_dim of recurrent layers", "", "head_dim"};
  constexpr Key kNormed{"norm of recurrent layers", "", "mamba_rms_norm|rms_norm"};
  constexpr Key kNormFirst{"norm before the gate", "", "mamba_norm_before_gate"};
  constexpr Key kLimits{"limits of steps", "", "time_step_limit"};
  RecurrentMixer& mixer = config.recurrent;
  TRY_ASSIGN(mixer.n_heads, file.integer(keys::kStateHeads, 1, kMaxWidth));
  TRY_ASSIGN(mixer.n_key_heads, file.integer(keys::kStateGroups, 1, kMaxWidth, size_t{1}));
  TRY_ASSIGN(mixer.key_dim, file.integer(keys::kStateSize, 1, kMaxWidth));
  TRY_ASSIGN(const size_t width, expanded(file, config));
  const bool attends = std::ranges::any_of(config.layers, [](const LayerConfig& layer) { return layer.attends; });
  const size_t usual = std::max(size_t{1}, width / mixer.n_heads);
  TRY_ASSIGN(mixer.value_dim, width_or(file, attends ? kHeadDim : kOwnHeadDim, usual));
  mixer.norm_parts = mixer.n_key_heads;
  TRY_ASSIGN(const bool first, file.flag(kNormFirst, false));
  if (first) mixer.gate = OutputGate::kNormThenGate;
  TRY_ASSIGN(bool normed, file.flag(kNormed, mixer.gate != OutputGate::kNoNorm));
  for (size_t l = 0; l < config.n_layers && file.gguf(); ++l) {
    if (config.layers[l].state_layer != kNoState) {
      normed = file.file().find_tensor("blk." + std::to_string(l) + ".ssm_norm.weight") != nullptr;
    }
  }
  if (!normed) mixer.gate = OutputGate::kNoNorm;
  TRY_ASSIGN(const auto limits, file.numbers_or_infinity(kLimits, 2));
  if (!limits) return {};
  if ((*limits)[0] > (*limits)[1]) {
    return file.bad(kLimits, std::to_string((*limits)[0]) + " and " + std::to_string((*limits)[1]), "a range");
  }
  mixer.step_low = static_cast<float>((*limits)[0]);
  mixer.step_high = static_cast<float>((*limits)[1]);
  return {};
}

Status read_mamba1(const Hyperparameters& file, ModelConfig& config) {
  RecurrentMixer& mixer = config.recurrent;
  mixer.n_heads = mixer.n_key_heads = 1;
  TRY_ASSIGN(mixer.key_dim, file.integer(keys::kStateSize, 1, kMaxWidth));
  TRY_ASSIGN(mixer.value_dim, expanded(file, config));
  TRY_ASSIGN(mixer.step_rank, width_or(file, keys::kStepRank, (config.dim + 15) / 16));
  mixer.gate = OutputGate::kNoNorm;
  return {};
}

Status read_gated_delta(const Hyperparameters& file, ModelConfig& config) {
  constexpr Key kValueDim{"head_dim of values", "", "linear_value_head_dim"};
  constexpr Key kNegative{"rates up to 2", "", "linear_allow_neg_eigval"};
  RecurrentMixer& mixer = config.recurrent;
  TRY_ASSIGN(mixer.n_heads, file.integer(keys::kStateHeads, 1, kMaxWidth));
  TRY_ASSIGN(mixer.n_key_heads, file.integer(keys::kStateGroups, 1, kMaxWidth));
  TRY_ASSIGN(mixer.key_dim, file.integer(keys::kStateSize, 1, kMaxWidth));
  if (file.gguf()) {
    TRY_ASSIGN(const size_t width, file.integer(keys::kStateWidth, 1, kMaxWidth));
    if (width % mixer.n_heads != 0) {
      return file.bad(keys::kStateWidth, std::to_string(width),
                      "a multiple of " + std::to_string(mixer.n_heads) + " heads");
    }
    mixer.value_dim = width / mixer.n_heads;
  } else {
    TRY_ASSIGN(mixer.value_dim, file.integer(kValueDim, 1, kMaxWidth));
  }
  TRY_ASSIGN(const bool negative, file.flag(kNegative, false));
  mixer.rate_scale = negative ? 2 : 1;
  mixer.norm_parts = mixer.n_heads;
  mixer.norm_is_shared = true;
  return {};
}

Status read_keyed_delta(const Hyperparameters& file, ModelConfig& config) {
  constexpr Key kHeads{"heads of states", "attention.head_count", "linear_attn_config.num_heads"};
  RecurrentMixer& mixer = config.recurrent;
  TRY_ASSIGN(mixer.n_heads, file.integer(kHeads, 1, kMaxWidth));
  TRY_ASSIGN(mixer.key_dim, file.integer(keys::kKeyedHeadDim, 1, kMaxWidth));
  mixer.n_key_heads = mixer.norm_parts = mixer.n_heads;
  mixer.value_dim = mixer.low_rank = mixer.key_dim;
  mixer.norm_is_shared = true;
  return {};
}

Status read_lightning(const Hyperparameters& file, ModelConfig& config) {
  RecurrentMixer& mixer = config.recurrent;
  mixer.n_heads = mixer.n_key_heads = config.n_heads;
  TRY_ASSIGN(mixer.key_dim, file.integer(keys::kHeadDim, 1, kMaxWidth, config.dim / config.n_heads));
  mixer.value_dim = mixer.key_dim;
  return {};
}

Status read_rule(const Hyperparameters& file, ModelConfig& config) {
  RecurrentMixer& mixer = config.recurrent;
  switch (mixer.rule) {
    case RecurrentRule::kNone: return {};
    case RecurrentRule::kShortConv:
      mixer.n_heads = mixer.n_key_heads = 1;
      mixer.key_dim = mixer.value_dim = config.dim;
      return {};
    case RecurrentRule::kMamba1: return read_mamba1(file, config);
    case RecurrentRule::kMamba2: return read_mamba2(file, config);
    case RecurrentRule::kGatedDelta: return read_gated_delta(file, config);
    case RecurrentRule::kKeyedDelta: return read_keyed_delta(file, config);
    case RecurrentRule::kLightning: return read_lightning(file, config);
  }
  return {};
}

// Numbers of one file that fit each other and memory.
Status check_shape(const Hyperparameters& file, const ModelConfig& config) {
  const RecurrentMixer& mixer = config.recurrent;
  const std::string of = file.file().path() + ": recurrent layers of " + std::to_string(mixer.n_heads) + " heads, " +
                         std::to_string(mixer.n_key_heads) + " of keys, " + std::to_string(mixer.key_dim) + " by " +
                         std::to_string(mixer.value_dim);
  if (mixer.n_heads % mixer.n_key_heads != 0) {
    return {ErrorCode::kBadHyperparameter, of + ", wanted heads that are a multiple of those of keys"};
  }
  const auto most = static_cast<size_t>(kMaxWidth);
  for (const auto& [heads, width] : {std::pair(mixer.n_heads, mixer.value_dim),
                                     std::pair(mixer.n_key_heads, mixer.key_dim)}) {
    if (heads > most / width) {
      return {ErrorCode::kBadHyperparameter, of + ", wanted at most " + std::to_string(kMaxWidth) + " columns"};
    }
  }
  if (mixer.v_width() % mixer.norm_parts != 0) {
    return {ErrorCode::kBadHyperparameter, of + ", wanted a width that " + std::to_string(mixer.norm_parts) +
                                               " groups divide"};
  }
  size_t n_layers = 0;
  for (const LayerConfig& layer : config.layers) n_layers += layer.state_layer != kNoState ? 1 : 0;
  const size_t columns = state_columns(mixer.value_dim) * mixer.n_heads;
  const size_t rows = mixer.key_dim + (mixer.n_taps - 1) * 4;  // an upper bound with the convolution's
  if (columns + 2 * mixer.q_width() > kMaxStateFloats / rows / std::max(n_layers, size_t{1})) {
    return {ErrorCode::kBadHyperparameter, of + " in " + std::to_string(n_layers) +
                                               " layers, wanted a state of at most " +
                                               std::to_string(kMaxStateFloats) + " numbers"};
  }
  return {};
}

// A factor that config.json may have.
Status read_factor(const Hyperparameters& file, const char* name, float& factor) {
  TRY_ASSIGN(const double value, file.number({name, "", name}, kMaxFactor, double{factor}));
  factor = static_cast<float>(value);
  return {};
}

// Factors of what goes into each block and comes out (arXiv 2507.22448). Those of queries, keys and values are of the
// scores and of what attention gives.
Status read_multipliers(const Hyperparameters& file, ModelConfig& config) {
  constexpr Key kSsm{"factors of recurrent inputs", "", "ssm_multipliers"};
  constexpr Key kMlp{"factors of the MLP", "", "mlp_multipliers"};
  float ssm_in = 1, attention_in = 1, key = 1;
  TRY(read_factor(file, "ssm_in_multiplier", ssm_in));
  TRY(read_factor(file, "attention_in_multiplier", attention_in));
  TRY(read_factor(file, "key_multiplier", key));
  TRY(read_factor(file, "ssm_out_multiplier", config.recurrent_residual.factor));
  TRY(read_factor(file, "attention_out_multiplier", config.attention_residual.factor));
  config.attention_scale *= attention_in * attention_in * key;
  config.attention_residual.factor *= attention_in;
  RecurrentMixer& mixer = config.recurrent;
  TRY_ASSIGN(const auto of_parts, file.numbers(kSsm, 5));
  float* const parts[] = {&mixer.z_scale, &mixer.v_scale, &mixer.k_scale, &mixer.q_scale, &mixer.number_scale};
  for (size_t i = 0; i < 5; ++i) *parts[i] = ssm_in * (of_parts ? static_cast<float>((*of_parts)[i]) : 1.0f);
  TRY_ASSIGN(const auto of_mlp, file.numbers(kMlp, 2));
  if (!of_mlp) return {};
  config.gate_scale = static_cast<float>((*of_mlp)[0]);
  config.mlp_residual.factor = static_cast<float>((*of_mlp)[1]);
  return {};
}

// x = alpha norm(x) + beta f(norm(x)) (MiniMax-01 2025).
Status read_normed_residual(const Hyperparameters& file, const char* block, Residual& residual) {
  const std::string alpha = std::string(block) + "_alpha_factor", beta = std::string(block) + "_beta_factor";
  residual.of_norm = true;
  TRY(read_factor(file, alpha.c_str(), residual.kept));
  return read_factor(file, beta.c_str(), residual.factor);
}

// Which block each layer uses that has one in front of its mixer.
Status read_common_blocks(const Hyperparameters& file, ModelConfig& config) {
  constexpr Key kBlocks{"blocks in common", "", "num_mem_blocks"};
  constexpr Key kRank{"rank of adapters", "", "adapter_rank"};
  constexpr Key kOfAttention{"adapters of attention", "", "use_shared_attention_adapter"};
  CommonBlocks& common = config.common;
  TRY_ASSIGN(common.n_blocks, file.integer(kBlocks, 1, kMaxLayers, size_t{1}));
  TRY_ASSIGN(common.adapter_rank, file.integer(kRank, 1, kMaxWidth, size_t{128}));
  TRY_ASSIGN(const bool of_attention, file.flag(kOfAttention, false));
  if (of_attention) {
    return {ErrorCode::kUnsupported, file.file().path() + ": " + file.key_of(kOfAttention) +
                                         " is not supported in a model of " + config.architecture};
  }
  common.ffn_dim = config.layers.front().ffn_dim;
  std::vector<size_t> first(common.n_blocks, kNoLayer);
  for (size_t l = 0; l < config.n_layers; ++l) {
    LayerConfig& layer = config.layers[l];
    layer.ffn_dim = 0;
    if (!layer.attends) continue;
    size_t& of_block = first[common.n_uses % common.n_blocks];
    if (of_block == kNoLayer) of_block = l;
    layer.common_layer = of_block;
    layer.adapter = common.n_uses++;
  }
  if (common.n_uses == 0) common = {};
  return {};
}

}  // namespace

Status read_layer_kinds(const Hyperparameters& file, const Architecture& row, ModelConfig& config) {
  const RecurrentFamily& family = row.recurrent;
  if (family.rule == RecurrentRule::kNone) return {};
  const size_t n = config.n_layers;
  std::vector<LayerKind> kinds(n, {family.beside_attention, true, LayerBlocks::kAll});
  if (!family.beside_attention && !family.alone) {
    TRY_ASSIGN(kinds, file.gguf() ? gguf_kinds(file, family, n) : hf_kinds(file, family, n));
  }
  size_t n_states = 0;
  for (size_t l = 0; l < n; ++l) {
    LayerConfig& layer = config.layers[l];
    layer.attends = kinds[l].attends;
    layer.blocks = kinds[l].blocks;
    if (kinds[l].recurs) layer.state_layer = n_states++;
    if (family.alone || layer.blocks == LayerBlocks::kMixer) layer.ffn_dim = 0;
  }
  return family.common_blocks ? read_common_blocks(file, config) : Status();
}

Status read_recurrent(const Hyperparameters& file, const Architecture& row, ModelConfig& config) {
  const RecurrentFamily& family = row.recurrent;
  const auto recurs = [](const LayerConfig& layer) { return layer.state_layer != kNoState; };
  if (std::ranges::none_of(config.layers, recurs)) return {};
  RecurrentMixer& mixer = config.recurrent;
  mixer.rule = family.rule;
  mixer.gate = family.gate;
  mixer.fused = file.gguf() ? family.gguf_fused : family.fused;
  mixer.tiled_heads = file.gguf() && family.tiled_in_gguf;
  mixer.logs_of_decays = !file.gguf();
  mixer.norm_eps = family.norm_eps != 0 ? family.norm_eps : config.norm_eps;
  config.recurrent_norms = family.norms;
  if (family.rule != RecurrentRule::kLightning) {
    TRY_ASSIGN(mixer.n_taps, file.integer(keys::kConvTaps, 2, kMaxTaps));
  }
  TRY(read_rule(file, config));
  TRY(check_shape(file, config));
  if (family.beside_attention && !file.gguf()) TRY(read_multipliers(file, config));
  if (family.rule != RecurrentRule::kLightning) return {};
  TRY(read_normed_residual(file, "linear_attn", config.recurrent_residual));
  TRY(read_normed_residual(file, "full_attn", config.attention_residual));
  return read_normed_residual(file, "mlp", config.mlp_residual);
}

}  // namespace ibid
