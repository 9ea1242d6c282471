#include "model/latent_rules.h"

#include <cmath>

namespace ibid {

namespace {

constexpr int64_t kMaxRank = 1 << 16;
constexpr int64_t kMaxHeadDim = 1024;

}  // namespace

Status read_latent(const Hyperparameters& file, ModelConfig& config) {
  constexpr Key kQRank{"rank of the queries' latent", "attention.q_lora_rank", "q_lora_rank"};
  constexpr Key kKvRank{"rank of the latent of keys and values", "attention.kv_lora_rank", "kv_lora_rank"};
  constexpr Key kNope{"dimensions of a key that do not turn", "", "qk_nope_head_dim"};
  constexpr Key kRope{"dimensions of a key that turn", "rope.dimension_count", "qk_rope_head_dim"};
  constexpr Key kValue{"value head_dim", "attention.value_length_mla|attention.value_length", "v_head_dim"};
  constexpr Key kKey{"head_dim", "attention.key_length_mla|attention.key_length", ""};
  LatentAttention& latent = config.latent;
  TRY_ASSIGN(latent.q_rank, file.integer(kQRank, 0, kMaxRank, size_t{0}));
  TRY_ASSIGN(latent.kv_rank, file.integer(kKvRank, 1, kMaxRank));
  TRY_ASSIGN(latent.rope_dim, file.integer(kRope, 2, static_cast<int64_t>(kMaxLatentRopeDim)));
  if (latent.rope_dim % 2 != 0) return file.bad(kRope, std::to_string(latent.rope_dim), "an even number");
  TRY_ASSIGN(latent.value_dim, file.integer(kValue, 1, kMaxHeadDim));
  if (file.gguf()) {
    TRY_ASSIGN(const size_t key_dim, file.integer(kKey, static_cast<int64_t>(latent.rope_dim) + 1, kMaxHeadDim));
    latent.nope_dim = key_dim - latent.rope_dim;
  } else {
    TRY_ASSIGN(latent.nope_dim, file.integer(kNope, 1, kMaxHeadDim - static_cast<int64_t>(latent.rope_dim)));
  }
  return {};
}

Result<double> read_latent_scale(const Hyperparameters& file, const ModelConfig& config) {
  constexpr Key kOfAll{"mscale_all_dim", "", "rope_scaling.mscale_all_dim|rope_parameters.mscale_all_dim"};
  constexpr Key kTenth{"mscale_all_dim", "rope.scaling.yarn_log_multiplier", ""};
  const RopeRule& rule = config.ropes.front();
  if (rule.kind != RopeRule::Kind::kYarn || rule.factor <= 1) return 1.0;
  TRY_ASSIGN(const double tenth, file.number(kTenth, kMaxFactor, 0.0));
  TRY_ASSIGN(const double of_all, file.number(kOfAll, kMaxFactor, LatentAttention::whole_multiplier(tenth)));
  const double magnitude = 0.1 * of_all * std::log(rule.factor) + 1.0;
  return magnitude * magnitude;
}

}  // namespace ibid
