#include "model/architectures/gguf_conversion.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace ibid {

namespace {

using enum TensorRole;

// Returns the scale of attention scores that readers assume if the file has no key for it.
float usual_scale(const ModelConfig& config) {
  const size_t head_dim = config.layers[config.first_attending()].head_dim;
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim)));
}

}  // namespace

size_t gguf_spelling(const ModelConfig& config, TensorRole role) {
  const RecurrentMixer& mixer = config.recurrent;
  const bool is_short = mixer.rule == RecurrentRule::kShortConv;
  switch (role) {
    case kMixIn: return is_short ? 2 : mixer.is_delta() ? 1 : 0;
    case kMixConv:
    case kMixConvBias:
    case kBMixIn:
    case kBMixOut: return is_short ? 1 : 0;
    case kMixOut: return is_short ? 1 : mixer.rule == RecurrentRule::kKeyedDelta ? 2 : 0;
    default: return 0;
  }
}

std::optional<TensorRole> gguf_fused_role(const ModelConfig& written, const TensorRow& row) {
  if (row.role == kWq && written.gate_beside_query) return kWqGate;
  if (row.role == kBq && written.gate_beside_query) return kBqGate;
  switch (row.part_of) {
    case kMixIn:
      if (written.recurrent.fused == FusedInputs::kQkv && row.role == kMixZ) return std::nullopt;
      return kMixIn;
    case kMixConv:
    case kMixConvBias:
    case kBMixIn:
    case kMixNumbers: return row.part_of;
    case kWqGate:
    case kBqGate: return written.gate_beside_query ? std::optional(row.part_of) : std::nullopt;
    default: return std::nullopt;
  }
}

bool is_gguf_floats(TensorRole role) {
  return role == kMixConvQ || role == kMixConvK || role == kMixConvV || role == kMixScanRates;
}

Shape gguf_float_shape(const ModelConfig& config, TensorRole role, size_t n_rows, size_t n_cols) {
  const RecurrentMixer& mixer = config.recurrent;
  const bool is_keyed = mixer.rule == RecurrentRule::kKeyedDelta;
  switch (role) {
    case kMixConvQ:
    case kMixConvK:
    case kMixConvV: return is_keyed ? Shape{{n_rows, 1, n_cols}, 3} : Shape{{n_rows, n_cols}, 2};
    case kMixScanRates: return Shape{{n_rows, n_cols}, 2};
    case kMixRates: return mixer.rule == RecurrentRule::kGatedDelta ? Shape{{n_rows}, 1} : Shape{{n_rows, 1}, 2};
    case kMixSkip: return Shape{{n_rows, 1}, 2};
    case kMixNorm: {
      if (mixer.norm_is_shared) break;
      return Shape{{mixer.norm_parts, n_rows / mixer.norm_parts}, 2};
    }
    default: break;
  }
  return Shape{{n_rows * n_cols}, 1};
}

float folded_factor(const ModelConfig& config, TensorRole role) {
  const RecurrentMixer& mixer = config.recurrent;
  switch (role) {
    case kEmbed: return config.embed_scale;
    case kLmHead: return config.logit_scale;
    case kWk: return config.attention_scale / usual_scale(config);
    case kWo: return config.attention_residual.factor;
    case kMixZ: return mixer.z_scale;
    case kMixV: return mixer.v_scale;
    case kMixK: return mixer.k_scale;
    case kMixQ: return mixer.q_scale;
    case kMixStepIn: return mixer.number_scale;
    case kMixOut: return config.recurrent_residual.factor;
    case kWGate: return config.gate_scale;
    case kWDown: return config.mlp_residual.factor;
    default: return 1;
  }
}

bool is_folded_bias(TensorRole role) {
  constexpr TensorRole kBiases[] = {kBq,    kBk,    kBv,    kBo,    kBGate,      kBDown,
                                    kBMixQ, kBMixK, kBMixV, kBMixZ, kBMixStepIn, kBMixOut};
  return std::ranges::find(kBiases, role) != std::end(kBiases);
}

ModelConfig without_factors(const ModelConfig& config) {
  ModelConfig without = config;
  RecurrentMixer& mixer = without.recurrent;
  without.embed_scale = without.logit_scale = without.gate_scale = 1;
  without.attention_scale = usual_scale(config);
  without.attention_input_scale = mixer.input_scale = 1;
  without.attention_residual = without.recurrent_residual = without.mlp_residual = {};
  mixer.z_scale = mixer.v_scale = mixer.k_scale = mixer.q_scale = mixer.number_scale = 1;
  return without;
}

}  // namespace ibid
