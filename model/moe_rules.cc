#include "model/moe_rules.h"

#include <algorithm>
#include <optional>

namespace ibid {

namespace {

constexpr int64_t kMaxExperts = 1 << 14;

constexpr Key kExperts{"n_experts", "expert_count", "num_local_experts|num_experts|n_routed_experts|moe_num_experts"};
constexpr Key kActive{"n_experts_active", "expert_used_count",
                      "num_experts_per_tok|moe_k|num_experts_per_token|top_k_experts"};

// Experts in groups, of which some are open.
Status read_groups(const Hyperparameters& file, RouterRule& router) {
  constexpr Key kGroups{"groups of experts", "expert_group_count", "n_group"};
  constexpr Key kOpen{"open groups of experts", "expert_group_used_count", "topk_group"};
  // 0 and 1 both say that there are none.
  TRY_ASSIGN(const size_t n_groups, file.integer(kGroups, 0, kMaxExperts, size_t{1}));
  if (n_groups <= 1) return {};
  router.n_groups = n_groups;
  if (router.n_experts % n_groups != 0 || router.n_experts / n_groups < 2) {
    return file.bad(kGroups, std::to_string(n_groups),
                    "a divisor of the " + std::to_string(router.n_experts) + " experts that leaves 2 or more in each");
  }
  TRY_ASSIGN(router.n_groups_active, file.integer(kOpen, 1, static_cast<int64_t>(n_groups), size_t{1}));
  const size_t n_open = router.n_groups_active * (router.n_experts / n_groups);
  if (n_open < router.n_experts_active) {
    return file.bad(kOpen, std::to_string(router.n_groups_active),
                    "groups of " + std::to_string(router.n_experts_active) + " experts or more together, they have " +
                        std::to_string(n_open));
  }
  return {};
}

// GGUF counts the ways.
Status read_scores(const Hyperparameters& file, RouterRule& router) {
  constexpr Key kGguf{"way to choose experts", "expert_gating_func", ""};
  constexpr Key kHf{"way to choose experts", "", "scoring_func"};
  if (file.has(kGguf)) {
    TRY_ASSIGN(const size_t way, file.integer(kGguf, 0, kMaxExperts));
    constexpr RouterScores kWays[] = {RouterScores::kSoftmax, RouterScores::kSigmoid, RouterScores::kSoftmaxOfChosen};
    if (way > std::size(kWays)) {
      return {ErrorCode::kUnsupported, file.file().path() + ": " + file.key_of(kGguf) + " " + std::to_string(way) +
                                           " is not supported (supported: 1 softmax, 2 sigmoid, 3 softmax of the "
                                           "chosen)"};
    }
    if (way > 0) router.scores = kWays[way - 1];
  }
  TRY_ASSIGN(const std::optional<std::string> name, file.text(kHf));
  if (!name) return {};
  if (*name != "softmax" && *name != "sigmoid") {
    return {ErrorCode::kUnsupported, file.file().path() + ": " + file.key_of(kHf) + " '" + *name +
                                         "' is not supported (supported: softmax, sigmoid)"};
  }
  router.scores = *name == "sigmoid" ? RouterScores::kSigmoid : RouterScores::kSoftmax;
  return {};
}

Status read_router(const Hyperparameters& file, const Architecture& row, RouterRule& router) {
  constexpr Key kNormalized{"normalised weights of experts", "expert_weights_norm", "norm_topk_prob|route_norm"};
  constexpr Key kScale{"scale of experts", "expert_weights_scale", "routed_scaling_factor|route_scale"};
  constexpr Key kSmallestSum{"smallest sum of weights", "", "moe_norm_min"};
  TRY_ASSIGN(router.n_experts_active, file.integer(kActive, 1, static_cast<int64_t>(router.n_experts)));
  router.scores = row.router_scores;
  TRY(read_scores(file, router));
  TRY_ASSIGN(router.normalized, file.flag(kNormalized, is_in(row.router_normalizes, file.gguf())));
  TRY_ASSIGN(const double smallest, file.positive(kSmallestSum, 1.0, double{router.smallest_sum}));
  router.smallest_sum = static_cast<float>(smallest);
  // Files of models without a scale say 0.
  TRY_ASSIGN(const double scale, file.number(kScale, kMaxFactor, 1.0));
  if (scale < 0) return file.bad(kScale, std::to_string(scale), "a positive number");
  if (scale > 0) router.weight_scale = static_cast<float>(scale);
  return read_groups(file, router);
}

Status read_widths(const Hyperparameters& file, const Architecture& row, const ModelConfig& config, MoeRule& moe) {
  constexpr Key kFfnDim{"ffn_dim of experts", "expert_feed_forward_length", "moe_intermediate_size"};
  constexpr Key kShared{"ffn_dim of the shared expert", "expert_shared_feed_forward_length",
                        "shared_expert_intermediate_size|shared_intermediate_size"};
  constexpr Key kCount{"shared experts", "expert_shared_count",
                       "n_shared_experts|num_shared_experts|moe_num_shared_experts"};
  constexpr Key kLimit{"limit of swiglu", "swiglu_clamp_exp", "swiglu_limit"};
  constexpr Key kAlpha{"alpha of swiglu", "", "swiglu_alpha"};
  TRY_ASSIGN(moe.ffn_dim, file.integer(kFfnDim, 1, kMaxWidth, config.layers.front().ffn_dim));
  TRY_ASSIGN(const size_t n_shared, file.integer(kCount, 0, kMaxExperts, size_t{0}));
  const size_t together = n_shared * moe.ffn_dim;
  TRY_ASSIGN(moe.shared_ffn_dim, file.integer(kShared, 0, kMaxWidth, together));
  if (moe.shared_ffn_dim > static_cast<size_t>(kMaxWidth)) {
    return file.bad(kCount, std::to_string(n_shared), "shared experts of " + std::to_string(kMaxWidth) +
                                                          " columns at most together");
  }
  if (!row.clamped_swiglu) return {};
  TRY_ASSIGN(const double limit, file.positive(kLimit, kMaxFactor, 7.0));
  TRY_ASSIGN(const double alpha, file.positive(kAlpha, kMaxFactor, 1.702));
  moe.swiglu_limit = static_cast<float>(limit);
  moe.swiglu_alpha = static_cast<float>(alpha);
  return {};
}

// Behind the last layer that has experts; -1 in a file: to the end.
Result<size_t> end_of_experts(const Hyperparameters& file, const ModelConfig& config) {
  constexpr Key kLast{"last layer with experts", "", "moe_layer_end_index"};
  if (!file.has(kLast)) return config.n_layers;
  TRY_ASSIGN(const auto last, file.file().get_int(file.key_of(kLast)));
  if (last == -1) return config.n_layers;
  TRY_ASSIGN(const size_t index, file.integer(kLast, 0, kMaxLayers));
  return index + 1;
}

// Layers that a list takes out.
Result<std::vector<int64_t>> listed_as_dense(const Hyperparameters& file, const ModelConfig& config) {
  constexpr Key kListed{"layers without experts", "", "mlp_only_layers"};
  std::vector<int64_t> listed;
  if (!file.has(kListed)) return listed;
  TRY_ASSIGN(const auto values, file.file().get_ints(file.key_of(kListed)));
  listed = values.value_or(listed);
  const auto n_layers = static_cast<int64_t>(config.n_layers);
  for (const int64_t layer : listed) {
    if (layer >= 0 && layer < n_layers) continue;
    return file.bad(kListed, "an array with " + std::to_string(layer), "layers 0.." + std::to_string(n_layers - 1));
  }
  return listed;
}

// Layers that keep an MLP: the first ones, those between every so many, and lists of them.
Status read_dense_layers(const Hyperparameters& file, bool moe_beside, ModelConfig& config) {
  constexpr Key kLeading{"leading layers without experts", "leading_dense_block_count",
                         "first_k_dense_replace|num_dense_layers|moe_layer_start_index"};
  constexpr Key kStep{"period of layers with experts", "interleave_moe_layer_step",
                      "moe_layer_interval|decoder_sparse_step"};
  constexpr Key kTypes{"kinds of MLPs", "", "mlp_layer_types"};
  TRY_ASSIGN(const size_t leading, file.integer(kLeading, 0, static_cast<int64_t>(config.n_layers), size_t{0}));
  TRY_ASSIGN(const size_t end, end_of_experts(file, config));
  TRY_ASSIGN(const size_t step, file.integer(kStep, 1, kMaxLayers, size_t{1}));
  TRY_ASSIGN(const auto types, file.texts(kTypes, config.n_layers));
  TRY_ASSIGN(const std::vector<int64_t> dense, listed_as_dense(file, config));
  for (size_t l = 0; l < config.n_layers; ++l) {
    bool sparse = l >= leading && l < end && (l + 1) % step == 0;
    sparse &= std::ranges::find(dense, static_cast<int64_t>(l)) == dense.end();
    if (types) sparse = (*types)[l] == "sparse";
    if (!sparse) continue;
    config.layers[l].has_experts = true;
    if (!moe_beside) config.layers[l].ffn_dim = 0;
  }
  return {};
}

}  // namespace

Status read_moe(const Hyperparameters& file, const Architecture& row, ModelConfig& config) {
  constexpr Key kEnabled{"use of experts", "", "enable_moe_block"};
  TRY_ASSIGN(const size_t n_experts, file.integer(kExperts, 0, kMaxExperts, size_t{0}));
  TRY_ASSIGN(const bool enabled, file.flag(kEnabled, true));
  if (n_experts == 0 || !enabled) return {};
  MoeRule& moe = config.moe;
  moe.router.n_experts = n_experts;
  moe.activation = config.layers.front().activation;
  TRY(read_router(file, row, moe.router));
  TRY(read_widths(file, row, config, moe));
  config.experts_interleaved = is_in(row.experts_interleaved, file.gguf());
  config.experts_transposed = is_in(row.experts_transposed, file.gguf());
  return read_dense_layers(file, row.moe_beside_mlp, config);
}

}  // namespace ibid
