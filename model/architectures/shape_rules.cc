#include "model/architectures/rules.h"

#include <algorithm>
#include <optional>

#include "kernels/kernels.h"
#include "model/architectures/keys.h"
#include "model/tensors/tensor_source.h"
#include "weights/model_file.h"

namespace ibid {

namespace {

constexpr size_t kUnboundedContext = size_t{1} << 20;  // for models without attention, if the file has no context

// Returns the number of KV heads for a file without the key: 1 with multi-query attention, else the number of heads.
Result<size_t> fallback_kv_heads(const Hyperparameters& file, const ModelConfig& config) {
  constexpr Key kMultiQuery{"multi-query attention", "", "multi_query"};
  constexpr Key kNewDecoder{"new decoder", "", "new_decoder_architecture"};
  TRY_ASSIGN(const bool single, file.flag(kMultiQuery, false));
  TRY_ASSIGN(const bool counted, file.flag(kNewDecoder, false));
  return single && !counted ? 1 : config.n_heads;
}

// Returns the value of `name` for layer l; config.json may list it by layer, as transformers 5 does if layers differ.
Result<size_t> of_layer(const Hyperparameters& file, size_t l, const char* name, int64_t high, size_t usual) {
  const std::string key = "per_layer_config." + std::to_string(l) + "." + name;
  return file.integer({name, "", key.c_str()}, 1, high, usual);
}

// Reads head_dim, which may differ between layers with and without a window. The main key describes the layers without
// a window in GGUF, and the layers with one in config.json.
Status read_two_head_dims(const Hyperparameters& file, ModelConfig& config) {
  const bool may_be_absent = file.has(keys::kHeadDim);
  if (!may_be_absent && config.dim % config.n_heads != 0) {
    return file.bad(keys::kNHeads, std::to_string(config.n_heads), "a divisor of dim, " + std::to_string(config.dim));
  }
  const size_t read_dim = config.common.used() ? 2 * config.dim : config.dim;
  TRY_ASSIGN(const size_t usual, file.integer(keys::kHeadDim, 1, kHeadDimLimit, read_dim / config.n_heads));
  TRY_ASSIGN(const size_t other, file.integer(keys::kOtherHeadDim, 1, kHeadDimLimit, usual));
  TRY_ASSIGN(const size_t value, file.integer(keys::kValueDim, 1, kHeadDimLimit, usual));
  TRY_ASSIGN(const size_t other_value, file.integer(keys::kOtherValueDim, 1, kHeadDimLimit, other));
  if (value != usual) return file.bad(keys::kValueDim, std::to_string(value), std::to_string(usual) + " as for keys");
  if (other_value != other) {
    return file.bad(keys::kOtherValueDim, std::to_string(other_value), std::to_string(other) + " as for keys");
  }
  for (size_t l = 0; l < config.n_layers; ++l) {
    LayerConfig& layer = config.layers[l];
    const bool is_usual = (layer.window == 0) == file.gguf();
    TRY_ASSIGN(layer.head_dim, of_layer(file, l, "head_dim", kHeadDimLimit, is_usual ? usual : other));
    if (layer.head_dim > kMaxHeadDim) {  // not checked on reading, as it may be the default dim / n_heads
      return file.bad(keys::kHeadDim, std::to_string(layer.head_dim), "1.." + std::to_string(kMaxHeadDim));
    }
    if (layer.rope != kNoRope && layer.head_dim % 2 != 0) {
      return file.bad(keys::kHeadDim, std::to_string(layer.head_dim), "an even number");
    }
  }
  return {};
}

// Reads the KV heads of each layer. Layers without a window that use keys as values may have fewer of them.
Status read_kv_heads(const Hyperparameters& file, ModelConfig& config) {
  constexpr Key kValueIsKey{"use of keys as values", "", "attention_k_eq_v"};
  constexpr Key kGlobal{"n_kv_heads of layers without a window", "", "num_global_key_value_heads"};
  TRY_ASSIGN(const size_t usual, fallback_kv_heads(file, config));
  const int64_t fewest = config.recurs() ? 0 : 1;  // layers without attention have no KV heads
  TRY_ASSIGN(const auto listed, file.per_layer(keys::kNKvHeads, fewest, kMaxWidth, config.n_layers));
  TRY_ASSIGN(const bool value_is_key, file.flag(kValueIsKey, false));
  for (size_t l = 0; l < config.n_layers; ++l) {
    LayerConfig& layer = config.layers[l];
    if (!layer.attends) continue;
    layer.n_kv_heads = listed ? (*listed)[l] : usual;
    if (value_is_key && layer.window == 0) {
      layer.value_is_key = true;
      TRY_ASSIGN(layer.n_kv_heads, file.integer(kGlobal, 1, kMaxWidth, layer.n_kv_heads));
    }
    TRY_ASSIGN(layer.n_kv_heads, of_layer(file, l, "num_key_value_heads", kMaxWidth, layer.n_kv_heads));
    if (layer.n_kv_heads == 0 || config.n_heads % layer.n_kv_heads != 0) {
      return file.bad(keys::kNKvHeads, std::to_string(layer.n_kv_heads),
                      "a divisor of n_heads, " + std::to_string(config.n_heads));
    }
  }
  return {};
}

// Each of the last n_shared layers uses the KV of an earlier layer: of the layers before all of these, the last one
// that has the same window type (with or without a window).
Status read_shared_kv(const Hyperparameters& file, ModelConfig& config) {
  constexpr Key kDoubleWide{"MLPs of these layers that are twice as wide", "", "use_double_wide_mlp"};
  const auto n_layers = static_cast<int64_t>(config.n_layers);
  TRY_ASSIGN(const size_t n_shared, file.integer(keys::kSharedKvLayers, 0, n_layers - 1, size_t{0}));
  TRY_ASSIGN(const bool double_wide, file.flag(kDoubleWide, false));
  const size_t n_writing = config.n_layers - n_shared;
  for (size_t l = 0; l < config.n_layers; ++l) {
    LayerConfig& layer = config.layers[l];
    layer.kv_layer = l;
    if (l < n_writing) continue;
    layer.writes_kv = layer.value_is_key = false;
    if (double_wide) layer.ffn_dim *= 2;
    size_t source = n_writing;
    while (source > 0 && (config.layers[source - 1].window == 0) != (layer.window == 0)) --source;
    if (source == 0) {
      return file.bad(keys::kSharedKvLayers, std::to_string(n_shared),
                      "fewer shared layers: layer " + std::to_string(l) + " has no earlier layer of its window type");
    }
    layer.kv_layer = source - 1;
    const LayerConfig& read = config.layers[source - 1];
    if (layer.head_dim != read.head_dim || layer.n_kv_heads != read.n_kv_heads) {
      return file.bad(keys::kSharedKvLayers, std::to_string(n_shared),
                      "shared layers with the KV heads and head_dim of their source layer");
    }
  }
  return {};
}

// Sets kv_layer when no layers share KV: each layer with attention stores its own.
void number_kv_layers(ModelConfig& config) {
  size_t n_before = 0;
  for (LayerConfig& layer : config.layers) {
    layer.kv_layer = n_before;
    n_before += layer.attends ? 1 : 0;
  }
}

// In LFM2 files the width of the MLP must be multiplied by 2/3 (and a factor in the file) and rounded up to a multiple.
Status adjust_width(const Hyperparameters& file, size_t& width) {
  constexpr Key kAdjusts{"adjustment of the MLP's width", "", "block_auto_adjust_ff_dim"};
  constexpr Key kFactor{"factor of the MLP's width", "", "block_ffn_dim_multiplier"};
  constexpr Key kMultiple{"divisor of the MLP's width", "", "block_multiple_of"};
  TRY_ASSIGN(const bool adjusts, file.flag(kAdjusts, false));
  if (!adjusts) return {};
  TRY_ASSIGN(const double factor, file.positive(kFactor, 1e3, 1.0));
  TRY_ASSIGN(const size_t multiple, file.integer(kMultiple, 1, kMaxWidth, size_t{1}));
  const size_t two_thirds = 2 * width / 3;
  const auto scaled = static_cast<size_t>(factor * static_cast<double>(two_thirds));
  width = (scaled + multiple - 1) / multiple * multiple;
  return {};
}

// Returns the number of rows of a matrix in the file, for sizes that have no key.
Result<size_t> rows_of(const ModelFile& file, const std::string& name) {
  const TensorView* tensor = file.find_tensor(name);
  if (tensor == nullptr) return Status(ErrorCode::kMissingTensor, file.path() + ": tensor " + name + " is missing");
  if (tensor->shape.rank == 2 && tensor->shape[0] > 0 && tensor->shape[0] <= static_cast<uint64_t>(kMaxWidth)) {
    return static_cast<size_t>(tensor->shape[0]);
  }
  return Status(ErrorCode::kBadShape, file.path() + ": tensor " + name + " is " + tensor->shape.to_string() +
                                          ", expected a matrix of at most " + std::to_string(kMaxWidth) + " rows");
}

// Returns the number of layers: the key, or else the length of the list of layer types.
Result<size_t> count_layers(const Hyperparameters& file) {
  constexpr Key kTypes{"types of layers", "", "layers_block_type"};
  if (file.has(keys::kNLayers) || !file.has(kTypes)) return file.integer(keys::kNLayers, 1, kMaxLayers);
  TRY_ASSIGN(const auto types, file.file().get_strings(file.key_of(kTypes)));
  const size_t n = types ? types->size() : 0;
  if (n >= 1 && n <= static_cast<size_t>(kMaxLayers)) return n;
  return file.bad(kTypes, "a list of " + std::to_string(n), "1.." + std::to_string(kMaxLayers) + " layers");
}

}  // namespace

Status read_shape(const Hyperparameters& file, const Architecture& row, ModelConfig& config) {
  TRY_ASSIGN(config.n_layers, count_layers(file));
  // GGUF's number of layers includes layers for multi-token prediction, which come last and are not used here.
  constexpr Key kPredictionLayers{"number of multi-token prediction layers", "nextn_predict_layers", ""};
  TRY_ASSIGN(const size_t n_prediction_layers,
             file.integer(kPredictionLayers, 0, static_cast<int64_t>(config.n_layers) - 1, size_t{0}));
  config.n_layers -= n_prediction_layers;
  TRY_ASSIGN(config.dim, file.integer(keys::kDim, 1, kMaxWidth));
  const bool without_attention =
      row.recurrent.without_attention;  // without attention, files lack the number of heads, often the context
  TRY_ASSIGN(config.n_heads, file.integer(keys::kNHeads, without_attention ? 0 : 1, kMaxWidth,
                                          without_attention ? std::optional<size_t>(0) : std::nullopt));
  TRY_ASSIGN(config.trained_context,
             file.integer(keys::kTrainedContext, 1, kMaxPositions,
                          without_attention ? std::optional<size_t>(kUnboundedContext) : std::nullopt));
  // GPT-2 and Falcon files omit the width of the MLP if it is 4 times `dim`.
  const bool may_be_absent = without_attention || file.has({"", "", "n_embd|multi_query"});
  const int64_t narrowest = without_attention || row.recurrent.one_block ? 0 : 1;
  TRY_ASSIGN(const auto listed, file.per_layer(keys::kFfnDim, narrowest, kMaxWidth, config.n_layers));
  if (!listed && !may_be_absent) return file.integer(keys::kFfnDim, 1, kMaxWidth).status();
  config.layers.resize(config.n_layers);
  for (size_t l = 0; l < config.n_layers; ++l) {
    config.layers[l].ffn_dim = listed ? (*listed)[l] : 4 * config.dim;
    TRY(adjust_width(file, config.layers[l].ffn_dim));
  }
  if (row.latent) return read_latent(file, config);
  return {};
}

Status read_heads(const Hyperparameters& file, const Architecture& row, ModelConfig& config) {
  if (row.latent) {
    for (size_t l = 0; l < config.n_layers; ++l) {
      config.layers[l].head_dim = config.latent.row_dim();
      config.layers[l].n_kv_heads = 1;
    }
    number_kv_layers(config);
    return {};
  }
  if (!config.attends()) return {};
  TRY(read_two_head_dims(file, config));
  TRY(read_kv_heads(file, config));
  if (file.gguf() && row.value_may_be_key) {  // a layer without a value tensor uses its keys as values
    for (size_t l = 0; l < config.n_layers; ++l) {
      const std::string name = tensor_name(file.file(), config, TensorRole::kWv, l);
      config.layers[l].value_is_key = file.file().find_tensor(name) == nullptr;
    }
  }
  if (!config.recurs()) return read_shared_kv(file, config);
  number_kv_layers(config);
  return {};
}

Status read_beside_layers(const Hyperparameters& file, ModelConfig& config) {
  constexpr Key kScales{"scale of the active stream", "", "altup_correct_scale"};
  const ModelFile& model = file.file();
  TRY_ASSIGN(config.layer_inputs.dim, file.integer(keys::kLayerInputs, 0, kMaxWidth, size_t{0}));
  if (config.layer_inputs.used()) {
    TRY_ASSIGN(config.layer_inputs.vocab_size, rows_of(model, tensor_name(model, config, TensorRole::kLayerEmbed)));
  }
  if (!file.has(keys::kStreams)) return {};
  TRY_ASSIGN(config.altup.n_streams, file.integer(keys::kStreams, 2, kMaxStreams));
  const auto last = static_cast<int64_t>(config.altup.n_streams) - 1;
  TRY_ASSIGN(config.altup.active, file.integer(keys::kActiveStream, 0, last, size_t{0}));
  TRY_ASSIGN(config.altup.scales_active, file.flag(kScales, true));
  TRY_ASSIGN(config.laurel_rank, rows_of(model, tensor_name(model, config, TensorRole::kLaurelLeft, 0)));
  return {};
}

}  // namespace ibid
