#include "model/architectures/rules.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/kernels.h"
#include "model/architectures/keys.h"
#include "weights/model_file.h"

namespace ibid {

namespace {

// Reads the scaling of queries in layers without rope (arXiv 2501.19399), which is on by default. The key that switches
// it on or off is a flag or a number.
Status read_growth_without_rope(const Hyperparameters& file, ModelConfig& config) {
  constexpr Key kGrows{"temperature of queries", "", "attn_temperature_tuning"};
  constexpr Key kGrowth{"temperature of queries", "", "attn_scale"};
  constexpr Key kStep{"step of the temperature of queries", "", "floor_scale"};
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
  constexpr Key kByDepth{"division of scores by the layer's number", "", "scale_attn_by_inverse_layer_idx"};
  constexpr Key kPerDimensions{"dimension that gives the attention scale", "", "query_pre_attn_scalar"};
  if (!config.attends()) return {};
  const size_t key_dim = row.latent ? config.latent.key_dim() : config.layers[config.first_attending()].head_dim;
  const bool wide = file.gguf() && config.n_layers == row.gguf_wide_scale_layers;
  const size_t divisor = config.common.used() ? 2 : 1;  // shared blocks read 2 dim columns, so head_dim is doubled
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
  config.query_growth = double{static_cast<float>(growth)};  // rounded to float, as in GGUF
  if (config.query_growth < 0) return file.bad(keys::kQueryGrowth, std::to_string(config.query_growth), "0 or more");
  if (!config.ropes.empty()) {
    config.query_growth_step = static_cast<size_t>(std::max(1.0, config.ropes[0].original_max_positions));
  }
  return row.grows_without_rope ? read_growth_without_rope(file, config) : Status();
}

namespace {

constexpr int64_t kMaxRank = 1 << 16;

}  // namespace

Status read_latent(const Hyperparameters& file, ModelConfig& config) {
  constexpr Key kPairs{"rotation of neighbouring dimensions", "", "rope_interleave"};
  constexpr Key kNope{"key dimensions without RoPE", "", "qk_nope_head_dim"};
  LatentAttention& latent = config.latent;
  TRY_ASSIGN(latent.q_rank, file.integer(keys::kQRank, 0, kMaxRank, size_t{0}));
  TRY_ASSIGN(latent.kv_rank, file.integer(keys::kKvRank, 1, kMaxRank));
  TRY_ASSIGN(latent.rope_dim, file.integer(keys::kLatentRopeDim, 2, static_cast<int64_t>(kMaxLatentRopeDim)));
  TRY_ASSIGN(latent.adjacent_pairs, file.flag(kPairs, true));
  if (latent.rope_dim % 2 != 0)
    return file.bad(keys::kLatentRopeDim, std::to_string(latent.rope_dim), "an even number");
  TRY_ASSIGN(latent.value_dim, file.integer(keys::kLatentValueDim, 1, kHeadDimLimit));
  if (file.gguf()) {
    TRY_ASSIGN(const size_t key_dim,
               file.integer(keys::kLatentKeyDim, static_cast<int64_t>(latent.rope_dim) + 1, kHeadDimLimit));
    latent.nope_dim = key_dim - latent.rope_dim;
  } else {
    TRY_ASSIGN(latent.nope_dim, file.integer(kNope, 1, kHeadDimLimit - static_cast<int64_t>(latent.rope_dim)));
  }
  if (latent.row_dim() > kMaxHeadDim) {
    return file.bad(keys::kKvRank, std::to_string(latent.kv_rank),
                    "a rank that fits in " + std::to_string(kMaxHeadDim) + " dimensions together with " +
                        std::to_string(latent.rope_dim) + " rotary dimensions");
  }
  return {};
}

Result<double> read_latent_scale(const Hyperparameters& file, const ModelConfig& config) {
  if (config.ropes.empty()) return 1.0;
  const RopeRule& rule = config.ropes.front();
  if (rule.kind != RopeRule::Kind::kYarn || rule.factor <= 1) return 1.0;
  TRY_ASSIGN(const double tenth, file.number(keys::kYarnTenth, kMaxFactor, 0.0));
  TRY_ASSIGN(const double of_all,
             file.number(keys::kMscaleOfAll, kMaxFactor, LatentAttention::whole_multiplier(tenth)));
  const double magnitude = 0.1 * of_all * std::log(rule.factor) + 1.0;
  return magnitude * magnitude;
}

}  // namespace ibid
