#include "model/architectures/rules.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "model/architectures/keys.h"
#include "model/tensors/tensor_source.h"

namespace ibid {

namespace {

constexpr int64_t kMaxTaps = 64;
// Maximum number of floats in the recurrent states of all layers together (1 GiB): more than any model has, and below
// the limits of later checks.
constexpr size_t kMaxStateFloats = size_t{1} << 28;

// Reads a width that a file may give as "auto" or omit; then it is `usual`.
Result<size_t> width_or(const Hyperparameters& file, const Key& key, size_t usual) {
  const auto named = file.text(key);
  if (named.ok() && *named) return usual;
  return file.integer(key, 1, kMaxWidth, usual);
}

// Returns the width of the inner activations, to which a recurrent layer expands its input.
Result<size_t> expanded(const Hyperparameters& file, const ModelConfig& config) {
  constexpr Key kExpand{"expansion", "", "mamba_expand|expand"};
  constexpr size_t kUsualExpand = 2;
  TRY_ASSIGN(const size_t expand, file.integer(kExpand, 1, 64, kUsualExpand));
  return width_or(file, keys::kStateWidth, expand * config.dim);
}

Status expect_heads_of_width(const Hyperparameters& file, size_t n_heads, size_t width) {
  if (width % n_heads == 0) return {};
  return file.bad(keys::kStateWidth, std::to_string(width), "a multiple of " + std::to_string(n_heads) + " heads");
}

Status read_mamba2(const Hyperparameters& file, ModelConfig& config) {
  constexpr Key kHeadDim{"head_dim of recurrent layers", "", "mamba_d_head|mamba_head_dim|mamba_headdim"};
  constexpr Key kOwnHeadDim{"head_dim of recurrent layers", "", "head_dim"};
  constexpr Key kNormed{"norm of recurrent layers", "", "mamba_rms_norm"};
  constexpr Key kNormFirst{"norm before the gate", "", "mamba_norm_before_gate"};
  constexpr Key kLimits{"limits of the time step", "", "time_step_limit"};
  RecurrentMixer& mixer = config.recurrent;
  TRY_ASSIGN(mixer.n_heads, file.integer(keys::kStateHeads, 1, kMaxWidth));
  TRY_ASSIGN(mixer.n_key_heads, file.integer(keys::kStateGroups, 1, kMaxWidth, size_t{1}));
  TRY_ASSIGN(mixer.key_dim, file.integer(keys::kStateSize, 1, kMaxWidth));
  TRY_ASSIGN(const size_t width, expanded(file, config));
  const bool attends = std::ranges::any_of(config.layers, [](const LayerConfig& layer) { return layer.attends; });
  const size_t usual = std::max(size_t{1}, width / mixer.n_heads);
  TRY_ASSIGN(mixer.value_dim, width_or(file, attends ? kHeadDim : kOwnHeadDim, usual));
  if (mixer.value_dim == usual) TRY(expect_heads_of_width(file, mixer.n_heads, width));
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
    return file.bad(kLimits, std::to_string((*limits)[0]) + " and " + std::to_string((*limits)[1]),
                    "a lower limit that is not above the upper limit");
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
    TRY(expect_heads_of_width(file, mixer.n_heads, width));
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
  constexpr Key kHeads{"number of heads of the recurrent state", "attention.head_count",
                       "linear_attn_config.num_heads"};
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

// Checks that heads, widths and sizes of the recurrent layers are consistent and within limits.
Status check_shape(const Hyperparameters& file, const ModelConfig& config) {
  const RecurrentMixer& mixer = config.recurrent;
  const std::string of = file.file().path() + ": recurrent layers with " + std::to_string(mixer.n_heads) +
                         " value heads, " + std::to_string(mixer.n_key_heads) + " key heads, " +
                         std::to_string(mixer.key_dim) + " by " + std::to_string(mixer.value_dim);
  if (mixer.n_heads % mixer.n_key_heads != 0) {
    return {ErrorCode::kBadHyperparameter, of + ": the number of value heads must be a multiple of the key heads"};
  }
  const auto most = static_cast<size_t>(kMaxWidth);
  for (const auto& [heads, width] :
       {std::pair(mixer.n_heads, mixer.value_dim), std::pair(mixer.n_key_heads, mixer.key_dim)}) {
    if (heads > most / width) {
      return {ErrorCode::kBadHyperparameter, of + ": at most " + std::to_string(kMaxWidth) + " columns are supported"};
    }
  }
  if (mixer.v_width() % mixer.norm_parts != 0) {
    return {ErrorCode::kBadHyperparameter,
            of + ": the width must be divisible by " + std::to_string(mixer.norm_parts) + " groups"};
  }
  size_t n_layers = 0;
  for (const LayerConfig& layer : config.layers) n_layers += layer.state_layer != kNoState ? 1 : 0;
  const size_t columns = state_columns(mixer.value_dim) * mixer.n_heads;
  const size_t rows = mixer.key_dim + (mixer.n_taps - 1) * 4;  // upper bound, including the convolution's history
  if (columns + 2 * mixer.q_width() > kMaxStateFloats / rows / std::max(n_layers, size_t{1})) {
    return {ErrorCode::kBadHyperparameter, of + " in " + std::to_string(n_layers) +
                                               " layers: a state must have at most " + std::to_string(kMaxStateFloats) +
                                               " numbers"};
  }
  return {};
}

// Reads an optional factor of config.json.
Status read_factor(const Hyperparameters& file, const char* name, float& factor) {
  TRY_ASSIGN(const double value, file.number({name, "", name}, kMaxFactor, double{factor}));
  factor = static_cast<float>(value);
  return {};
}

// Reads the factors of each block's inputs and outputs (arXiv 2507.22448). Those of queries, keys and values are
// multiplied into the scale of scores and the factor of attention's output.
Status read_multipliers(const Hyperparameters& file, ModelConfig& config) {
  constexpr Key kSsm{"multipliers of recurrent inputs", "", "ssm_multipliers"};
  constexpr Key kMlp{"multipliers of the MLP", "", "mlp_multipliers"};
  float ssm_in = 1, attention_in = 1, key = 1;
  TRY(read_factor(file, "ssm_in_multiplier", ssm_in));
  TRY(read_factor(file, "attention_in_multiplier", attention_in));
  TRY(read_factor(file, "key_multiplier", key));
  TRY(read_factor(file, "ssm_out_multiplier", config.recurrent_residual.factor));
  TRY(read_factor(file, "attention_out_multiplier", config.attention_residual.factor));
  config.attention_input_scale = attention_in;
  config.recurrent.input_scale = ssm_in;
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

// Reads alpha and beta of x = alpha norm(x) + beta f(norm(x)) (MiniMax-01 2025).
Status read_normed_residual(const Hyperparameters& file, const char* block, Residual& residual) {
  const std::string alpha = std::string(block) + "_alpha_factor", beta = std::string(block) + "_beta_factor";
  residual.of_norm = true;
  TRY(read_factor(file, alpha.c_str(), residual.kept));
  return read_factor(file, beta.c_str(), residual.factor);
}

// Error: kUnsupported if the configuration's activation is not SiLU. In most families this activation also applies to
// convolutions and gates, for which the runtime has only SiLU.
Status refuse_other_activation(const Hyperparameters& file, const RecurrentFamily& family) {
  constexpr Key kKey{"activation of recurrent layers", "", "mamba_hidden_act|hidden_act"};
  if (family.common_blocks || family.rule == RecurrentRule::kShortConv) return {};
  TRY_ASSIGN(const std::optional<std::string> name, file.text(kKey));
  if (!name || *name == "silu" || *name == "swish") return {};
  return {ErrorCode::kUnsupported, file.file().path() + ": " + file.key_of(kKey) + " '" + *name +
                                       "' is not supported in recurrent layers (supported: silu, swish)"};
}

}  // namespace

Status read_recurrent(const Hyperparameters& file, const Architecture& row, ModelConfig& config) {
  const RecurrentFamily& family = row.recurrent;
  const auto recurs = [](const LayerConfig& layer) { return layer.state_layer != kNoState; };
  if (std::ranges::none_of(config.layers, recurs)) return {};
  TRY(refuse_other_activation(file, family));
  RecurrentMixer& mixer = config.recurrent;
  mixer.rule = family.rule;
  mixer.gate = family.gate;
  mixer.fused = file.gguf() ? family.gguf_fused : family.fused;
  // The same order of heads in memory for both containers, so that sums over heads round alike.
  mixer.tiled_heads = family.tiled_in_gguf;
  mixer.tiled_in_file = file.gguf();
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
