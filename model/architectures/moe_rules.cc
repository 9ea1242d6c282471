#include "model/architectures/rules.h"

#include <algorithm>
#include <optional>
#include <string>

#include "model/architectures/keys.h"

namespace ibid {

namespace {

constexpr int64_t kMaxExperts = 1 << 14;

// Reads the number of groups of experts, and from how many groups a row may choose its experts.
Status read_groups(const Hyperparameters& file, RouterRule& router) {
  // 0 and 1 both mean that experts have no groups.
  TRY_ASSIGN(const size_t n_groups, file.integer(keys::kExpertGroups, 0, kMaxExperts, size_t{1}));
  if (n_groups <= 1) return {};
  router.n_groups = n_groups;
  if (router.n_experts % n_groups != 0 || router.n_experts / n_groups < 2) {
    return file.bad(keys::kExpertGroups, std::to_string(n_groups),
                    "a divisor of the " + std::to_string(router.n_experts) + " experts with at least 2 in each group");
  }
  TRY_ASSIGN(router.n_groups_active,
             file.integer(keys::kExpertGroupsActive, 1, static_cast<int64_t>(n_groups), size_t{1}));
  const size_t n_open = router.n_groups_active * (router.n_experts / n_groups);
  if (n_open < router.n_experts_active) {
    return file.bad(keys::kExpertGroupsActive, std::to_string(router.n_groups_active),
                    "groups of at least " + std::to_string(router.n_experts_active) + " experts together; these have " +
                        std::to_string(n_open));
  }
  return {};
}

// Router scores by GGUF's expert_gating_func, whose values start at 1.
constexpr RouterScores kGgufGatingFunctions[] = {RouterScores::kSoftmax, RouterScores::kSigmoid,
                                                 RouterScores::kSoftmaxOfChosen};

Status read_scores(const Hyperparameters& file, RouterRule& router) {
  constexpr Key kHf{"gating function", "", "scoring_func|moe_router_activation_func"};
  if (file.has(keys::kRouterScores)) {
    TRY_ASSIGN(const size_t way, file.integer(keys::kRouterScores, 0, kMaxExperts));
    if (way > std::size(kGgufGatingFunctions)) {
      return {ErrorCode::kUnsupported, file.file().path() + ": " + file.key_of(keys::kRouterScores) + " " +
                                           std::to_string(way) +
                                           " is not supported (supported: 1 softmax, 2 sigmoid, 3 softmax over "
                                           "the selected experts)"};
    }
    if (way > 0) router.scores = kGgufGatingFunctions[way - 1];
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
  constexpr Key kSmallestSum{"smallest sum of the experts' weights", "", "moe_norm_min"};
  TRY_ASSIGN(router.n_experts_active, file.integer(keys::kExpertsActive, 1, static_cast<int64_t>(router.n_experts)));
  router.scores = row.router_scores;
  TRY(read_scores(file, router));
  TRY_ASSIGN(router.normalized, file.flag(keys::kRouterNormalized, is_in(row.router_normalizes, file.gguf())));
  TRY_ASSIGN(const double smallest, file.positive(kSmallestSum, 1.0, double{router.smallest_sum}));
  router.smallest_sum = static_cast<float>(smallest);
  // 0 is allowed, because models without a scale may store 0.
  TRY_ASSIGN(const double scale, file.number(keys::kRouterScale, kMaxFactor, 1.0));
  if (scale < 0) return file.bad(keys::kRouterScale, std::to_string(scale), "a positive number");
  if (scale > 0) router.weight_scale = static_cast<float>(scale);
  return read_groups(file, router);
}

Status read_widths(const Hyperparameters& file, const Architecture& row, const ModelConfig& config, MoeRule& moe) {
  constexpr Key kAlpha{"alpha of SwiGLU", "", "swiglu_alpha"};
  TRY_ASSIGN(moe.ffn_dim, file.integer(keys::kExpertFfnDim, 1, kMaxWidth, config.layers.front().ffn_dim));
  TRY_ASSIGN(const size_t n_shared, file.integer(keys::kSharedCount, 0, kMaxExperts, row.shared_experts));
  const size_t together = n_shared * moe.ffn_dim;
  TRY_ASSIGN(moe.shared_ffn_dim, file.integer(keys::kSharedFfnDim, 0, kMaxWidth, together));
  if (moe.shared_ffn_dim > static_cast<size_t>(kMaxWidth)) {
    return file.bad(keys::kSharedCount, std::to_string(n_shared),
                    "shared experts with at most " + std::to_string(kMaxWidth) + " columns together");
  }
  if (!row.clamped_swiglu) return {};
  TRY_ASSIGN(const double limit, file.positive(keys::kSwigluLimit, kMaxFactor, 7.0));
  TRY_ASSIGN(const double alpha, file.positive(kAlpha, kMaxFactor, 1.702));
  moe.swiglu_limit = static_cast<float>(limit);
  moe.swiglu_alpha = static_cast<float>(alpha);
  return {};
}

// Returns the index after the last layer with experts. The file may have -1, which means no limit.
Result<size_t> end_of_experts(const Hyperparameters& file, const ModelConfig& config) {
  constexpr Key kLast{"last layer with experts", "", "moe_layer_end_index"};
  if (!file.has(kLast)) return config.n_layers;
  TRY_ASSIGN(const auto last, file.file().get_int(file.key_of(kLast)));
  if (last == -1) return config.n_layers;
  TRY_ASSIGN(const size_t index, file.integer(kLast, 0, kMaxLayers));
  return index + 1;
}

// Reads a list of layers.
Result<std::vector<int64_t>> listed_layers(const Hyperparameters& file, const Key& key, const ModelConfig& config) {
  std::vector<int64_t> listed;
  if (!file.has(key)) return listed;
  TRY_ASSIGN(const auto values, file.file().get_ints(file.key_of(key)));
  listed = values.value_or(listed);
  const auto n_layers = static_cast<int64_t>(config.n_layers);
  for (const int64_t layer : listed) {
    if (layer >= 0 && layer < n_layers) continue;
    return file.bad(key, "an array with " + std::to_string(layer), "layers 0.." + std::to_string(n_layers - 1));
  }
  return listed;
}

// Reads which layers have an MLP instead of experts: the first N, those outside of a period, or those in a list.
Status read_dense_layers(const Hyperparameters& file, bool moe_beside, ModelConfig& config) {
  constexpr Key kTypes{"kinds of MLPs", "", "mlp_layer_types"};
  constexpr Key kDense{"layers without experts", "", "mlp_only_layers"};
  constexpr Key kSparse{"layers with experts", "", "moe_layers"};
  constexpr Key kDenseFfnDim{"ffn_dim of layers without experts", "", "intermediate_size_mlp"};
  TRY_ASSIGN(const size_t leading,
             file.integer(keys::kLeadingDense, 0, static_cast<int64_t>(config.n_layers), size_t{0}));
  TRY_ASSIGN(const size_t end, end_of_experts(file, config));
  constexpr Key kOffset{"first layer with experts", "", "expert_layer_offset"};
  TRY_ASSIGN(const size_t step, file.integer(keys::kExpertStep, 1, kMaxLayers, size_t{1}));
  std::optional<size_t> offset;
  if (file.has(kOffset)) {
    TRY_ASSIGN(offset, file.integer(kOffset, 0, kMaxLayers));
  }
  TRY_ASSIGN(const auto types, file.texts(kTypes, config.n_layers));
  TRY_ASSIGN(const std::vector<int64_t> dense, listed_layers(file, kDense, config));
  TRY_ASSIGN(const std::vector<int64_t> with_experts, listed_layers(file, kSparse, config));
  for (size_t l = 0; l < config.n_layers; ++l) {
    const bool in_step = offset ? l % step == *offset % step : (l + 1) % step == 0;
    bool sparse = l >= leading && l < end && in_step;
    sparse &= std::ranges::find(dense, static_cast<int64_t>(l)) == dense.end();
    if (types) sparse = (*types)[l] == "sparse";
    if (file.has(kSparse)) sparse = std::ranges::find(with_experts, static_cast<int64_t>(l)) != with_experts.end();
    // In GGUF, models with recurrent layers have no key for the layers with experts: a layer has experts if its router
    // is in the file.
    const std::string router = "blk." + std::to_string(l) + ".ffn_gate_inp.weight";
    if (file.gguf() && config.recurs()) sparse = file.file().find_tensor(router) != nullptr;
    if (config.layers[l].blocks == LayerBlocks::kMixer) continue;
    if (config.layers[l].blocks != LayerBlocks::kAll) sparse = config.layers[l].blocks == LayerBlocks::kExperts;
    if (!sparse) {
      TRY_ASSIGN(config.layers[l].ffn_dim, file.integer(kDenseFfnDim, 1, kMaxWidth, config.layers[l].ffn_dim));
      continue;
    }
    config.layers[l].has_experts = true;
    if (!moe_beside) config.layers[l].ffn_dim = 0;
  }
  return {};
}

}  // namespace

size_t gguf_number_of(RouterScores scores) {
  return static_cast<size_t>(std::ranges::find(kGgufGatingFunctions, scores) - std::begin(kGgufGatingFunctions)) + 1;
}

Status read_moe(const Hyperparameters& file, const Architecture& row, ModelConfig& config) {
  constexpr Key kEnabled{"use of experts", "", "enable_moe_block"};
  TRY_ASSIGN(const size_t n_experts, file.integer(keys::kExperts, 0, kMaxExperts, size_t{0}));
  TRY_ASSIGN(const bool enabled, file.flag(kEnabled, true));
  if (n_experts == 0 || !enabled) return {};
  MoeRule& moe = config.moe;
  moe.router.n_experts = n_experts;
  moe.activation = config.layers.front().activation;
  moe.gated = config.gated;
  moe.weighs_inputs = row.weighs_inputs;
  TRY(read_router(file, row, moe.router));
  TRY(read_widths(file, row, config, moe));
  config.experts_interleaved = is_in(row.experts_interleaved, file.gguf());
  config.experts_transposed = is_in(row.experts_transposed, file.gguf());
  return read_dense_layers(file, row.moe_beside_mlp, config);
}

}  // namespace ibid
