#include "model/architectures/latent_rules.h"

#include <cmath>

#include "kernels/kernels.h"
#include "model/architectures/keys.h"

namespace ibid {

namespace {

constexpr int64_t kMaxRank = 1 << 16;
constexpr auto kHeadDimLimit = static_cast<int64_t>(kMaxHeadDim);

}  // namespace

Status read_latent(const Hyperparameters& file, ModelConfig& config) {
  constexpr Key kPairs{"rope of neighbours", "", "rope_interleave"};
  constexpr Key kNope{"dimensions of a key that do not turn", "", "qk_nope_head_dim"};
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
                    "one that has room in a row of " + std::to_string(kMaxHeadDim) + " beside " +
                        std::to_string(latent.rope_dim) + " dimensions that turn");
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
