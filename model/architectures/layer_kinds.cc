#include "model/architectures/rules.h"

#include <algorithm>
#include <string>
#include <vector>

#include "model/architectures/keys.h"
#include "model/tensors/tensor_source.h"
#include "weights/model_file.h"

namespace ibid {

namespace {

// Which blocks a layer has.
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

// Reads a list of the indices of the layers with attention. The file counts layers from `first` on.
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

// Returns the kinds of the layers if the file has no list of them: with gated delta rules every N-th layer has
// attention, otherwise all layers have it.
Result<std::vector<LayerKind>> attention_by_interval(const Hyperparameters& file, const RecurrentFamily& family,
                                                     size_t n) {
  constexpr size_t kUsualInterval = 4;
  if (family.rule != RecurrentRule::kGatedDelta) return std::vector<LayerKind>(n, kAttention);
  TRY_ASSIGN(const size_t interval, file.integer(keys::kFullInterval, 1, kMaxLayers, kUsualInterval));
  return attention_every(interval, interval - 1, n);
}

Result<std::vector<LayerKind>> kinds_of_letters(const Hyperparameters& file, const Key& key,
                                                const RecurrentFamily& family, size_t n) {
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
  constexpr Key kTypes{"types of layers", "", "layer_types|layers_block_type"};
  constexpr Key kLetters{"pattern of layer types, a letter for each layer", "", "hybrid_override_pattern"};
  constexpr Key kIndices{"layers with attention", "", "attn_layer_indices|full_attn_idxs"};
  constexpr Key kIndicesFromOne{"layers with attention", "", "linear_attn_config.full_attn_layers"};
  constexpr Key kFlags{"types of layers", "", "attn_type_list"};
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

// Reads the kinds from GGUF. A layer without KV heads is recurrent. Exception: in families with one block per layer, a
// layer without KV heads has only experts if the file has a router for it, and only an MLP if the file has a width for
// its MLP.
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

// Assigns a shared block to each layer that has one before its mixer.
Status read_common_blocks(const Hyperparameters& file, ModelConfig& config) {
  constexpr Key kBlocks{"number of shared blocks", "", "num_mem_blocks"};
  constexpr Key kRank{"rank of adapters", "", "adapter_rank"};
  constexpr Key kOfAttention{"adapters of attention", "", "use_shared_attention_adapter"};
  CommonBlocks& common = config.common;
  TRY_ASSIGN(common.n_blocks, file.integer(kBlocks, 1, kMaxLayers, size_t{1}));
  TRY_ASSIGN(common.adapter_rank, file.integer(kRank, 1, kMaxWidth, size_t{128}));
  TRY_ASSIGN(common.adapts_attention, file.flag(kOfAttention, false));
  common.ffn_dim = config.layers.front().ffn_dim;
  std::vector<size_t> first(common.n_blocks, kNoLayer);
  for (size_t l = 0; l < config.n_layers; ++l) {
    LayerConfig& layer = config.layers[l];
    layer.ffn_dim = 0;
    if (!layer.attends) continue;
    size_t& of_block = first[common.n_uses % common.n_blocks];
    if (of_block == kNoLayer) of_block = l;
    // If the file has the block's weights for this layer, the layer uses them instead of the shared ones.
    const std::string own = tensor_name(file.file(), config, TensorRole::kCommonNorm, l);
    layer.common_layer = file.file().find_tensor(own) != nullptr ? l : of_block;
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
  if (!family.beside_attention && !family.without_attention) {
    TRY_ASSIGN(kinds, file.gguf() ? gguf_kinds(file, family, n) : hf_kinds(file, family, n));
  }
  size_t n_states = 0;
  for (size_t l = 0; l < n; ++l) {
    LayerConfig& layer = config.layers[l];
    layer.attends = kinds[l].attends;
    layer.blocks = kinds[l].blocks;
    if (kinds[l].recurs) layer.state_layer = n_states++;
    if (family.without_attention || layer.blocks == LayerBlocks::kMixer) layer.ffn_dim = 0;
  }
  return family.common_blocks ? read_common_blocks(file, config) : Status();
}

}  // namespace ibid
