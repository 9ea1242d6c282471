#include "model/architectures/attention_rules.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "model/architectures/keys.h"
#include "model/architectures/latent_rules.h"
#include "weights/model_file.h"

namespace ibid {

namespace {

// Queries of the layers without rope grow (arXiv 2501.19399), unless the file says not: true, or early, a number.
Status read_growth_without_rope(const Hyperparameters& file, ModelConfig& config) {
  constexpr Key kGrows{"growth of queries", "", "attn_temperature_tuning"};
  constexpr Key kGrowth{"growth of queries", "", "attn_scale"};
  constexpr Key kStep{"step of the growth of queries", "", "floor_scale"};
  const auto number = file.file().get_int(file.key_of(kGrows));
  const bool is_number = number.ok() && *number;
  const Result<bool> grows = is_number ? Result<bool>(**number != 0) : file.flag(kGrows, true);
  TRY(grows.status());
  if (!*grows) return {};
  TRY_ASSIGN(config.query_growth, file.positive(kGrowth, kMaxFactor, 0.1));
  TRY_ASSIGN(config.query_growth_step, file.integer(kStep, 1, kMaxPositions, size_t{8192}));
  config.query_growth_shift = 1;
  config.query_growth_without_rope = true;
  return {};
}

}  // namespace

Result<double> read_softcap(const Hyperparameters& file, const Key& key, float usual) {
  return file.number(key, kMaxFactor, file.is_null(key) ? 0.0 : double{usual});
}

Status read_attention(const Hyperparameters& file, const Architecture& row, ModelConfig& config) {
  constexpr Key kScaled{"use of the attention scale", "", "scale_attn_weights"};
  constexpr Key kByDepth{"scores divided by the layer", "", "scale_attn_by_inverse_layer_idx"};
  constexpr Key kPerDimensions{"dimensions of the attention scale", "", "query_pre_attn_scalar"};
  if (!config.attends()) return {};
  const size_t key_dim = row.latent ? config.latent.key_dim() : config.layers[config.first_attending()].head_dim;
  const bool wide = file.gguf() && config.n_layers == row.gguf_wide_scale_layers;
  const size_t divisor = config.common.used() ? 2 : 1;  // of heads that read twice the width
  const auto usual = static_cast<double>(wide ? config.dim / config.n_heads : key_dim / divisor);
  TRY_ASSIGN(const double dimensions, file.positive(kPerDimensions, kMaxFactor, usual));
  TRY_ASSIGN(const bool scaled, file.flag(kScaled, true));
  TRY_ASSIGN(config.scale_by_depth, file.flag(kByDepth, false));
  const double usual_scale = !scaled                    ? 1.0
                             : row.attention_scale != 0 ? double{row.attention_scale}
                                                        : 1.0 / std::sqrt(dimensions);
  TRY_ASSIGN(const double scale, file.positive(keys::kAttentionScale, kMaxFactor, usual_scale));
  const Result<double> stretched = row.latent ? read_latent_scale(file, config) : Result<double>(1.0);
  TRY(stretched.status());
  config.attention_scale = static_cast<float>(scale * *stretched);
  TRY_ASSIGN(const double softcap, read_softcap(file, keys::kAttentionSoftcap, row.attention_softcap));
  config.attention_softcap = static_cast<float>(softcap);
  if (softcap < 0) {
    return file.bad(keys::kAttentionSoftcap, std::to_string(softcap), "a positive number, or 0 for none");
  }
  TRY_ASSIGN(const double growth, file.number(keys::kQueryGrowth, kMaxFactor, 0.0));
  config.query_growth = double{static_cast<float>(growth)};  // as GGUF has it
  if (config.query_growth < 0) return file.bad(keys::kQueryGrowth, std::to_string(config.query_growth), "0 or more");
  if (!config.ropes.empty()) {
    config.query_growth_step = static_cast<size_t>(std::max(1.0, config.ropes[0].original_max_positions));
  }
  return row.grows_without_rope ? read_growth_without_rope(file, config) : Status();
}

}  // namespace ibid
