#include "model/architectures/rules.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/text.h"
#include "kernels/kernels.h"
#include "model/architectures/keys.h"
#include "weights/block_formats.h"

namespace ibid {

namespace {

constexpr Key kLayerTypes{"types of layers", "", "layer_types"};
constexpr Key kUseWindow{"use of windows", "", "use_sliding_window"};

bool has_window_by_period(size_t layer, size_t period) { return period == 0 || (layer + 1) % period != 0; }

// Returns whether each layer has a window, from the list of layer types in config.json.
Result<std::vector<bool>> windowed_by_types(const Hyperparameters& file, const ModelConfig& config) {
  TRY_ASSIGN(const auto types, file.texts(kLayerTypes, config.n_layers));
  std::vector<bool> windowed;
  for (const std::string_view type : types.value_or(std::vector<std::string_view>())) {
    if (type != "sliding_attention" && type != "full_attention") {
      return Status(ErrorCode::kUnsupported, file.file().path() + ": layer type '" + std::string(type) +
                                                 "' is not supported (supported: full_attention, sliding_attention)");
    }
    windowed.push_back(type == "sliding_attention");
  }
  return windowed;
}

// Returns whether each layer has a window, from a period, a list (GGUF), or letters for one period ("LLLG").
Result<std::vector<bool>> windowed_by_period(const Hyperparameters& file, const Architecture& row,
                                             const ModelConfig& config) {
  std::vector<bool> windowed;
  size_t period = row.window_period;
  if (const auto letters = file.text(keys::kWindowPattern); letters.ok() && *letters) {
    const std::string& text = **letters;
    if (text.empty() || text.find_first_not_of("LG") != std::string::npos) {
      return file.bad(keys::kWindowPattern, "'" + text + "'", "letters L (local) and G (global)");
    }
    for (size_t l = 0; l < config.n_layers; ++l) windowed.push_back(text[l % text.size()] == 'L');
    windowed.back() = false;
    return windowed;
  }
  if (file.has(keys::kWindowPattern) && !file.gguf()) {
    TRY_ASSIGN(period, file.integer(keys::kWindowPattern, 0, kMaxLayers));
  } else if (file.has(keys::kWindowPattern)) {
    TRY_ASSIGN(const auto found, file.per_layer(keys::kWindowPattern, 0, kMaxLayers, config.n_layers));
    const std::vector<size_t> listed = found.value_or(std::vector<size_t>(config.n_layers, period));
    const bool is_list = std::ranges::all_of(listed, [](size_t value) { return value <= 1; });
    if (is_list) return std::vector<bool>(listed.begin(), listed.end());
    period = listed.front();
  }
  for (size_t l = 0; l < config.n_layers; ++l) windowed.push_back(has_window_by_period(l, period));
  return windowed;
}

Result<std::vector<bool>> windowed_layers(const Hyperparameters& file, const Architecture& row,
                                          const ModelConfig& config) {
  constexpr Key kFirst{"first layer with a window", "", "max_window_layers"};
  std::vector<bool> none(config.n_layers, false), all(config.n_layers, true);
  const bool has_window_flag = row.windows == Windows::kUpperLayers || row.windows == Windows::kWithoutRope;
  if (has_window_flag && !file.gguf()) {
    TRY_ASSIGN(const bool used, file.flag(kUseWindow, false));
    if (!used) return none;
  }
  if (file.has(kLayerTypes)) return windowed_by_types(file, config);
  switch (row.windows) {
    case Windows::kNone:
    case Windows::kChunks: return none;
    case Windows::kAll:
    case Windows::kAllOfGguf: return all;
    case Windows::kPeriod: return windowed_by_period(file, row, config);
    case Windows::kUpperLayers: {
      if (file.gguf()) return file.has(keys::kWindowPattern) ? windowed_by_period(file, row, config) : none;
      TRY_ASSIGN(const size_t first, file.integer(kFirst, 0, kMaxPositions, size_t{0}));
      std::fill_n(all.begin(), std::min(first, config.n_layers), false);
      return all;
    }
    case Windows::kWithoutRope: {
      for (size_t l = 0; l < config.n_layers; ++l) all[l] = config.layers[l].rope == kNoRope;
      return all;
    }
  }
  return none;
}

Status read_windows(const Hyperparameters& file, const Architecture& row, ModelConfig& config) {
  const bool none = row.windows == Windows::kNone || row.windows == Windows::kChunks ||
                    (row.windows == Windows::kAllOfGguf && !file.gguf());
  if (none || !file.has(keys::kWindow)) return {};
  TRY_ASSIGN(const size_t window, file.integer(keys::kWindow, 0, kMaxPositions));
  TRY_ASSIGN(const std::vector<bool> windowed, windowed_layers(file, row, config));
  if (window == 0 && !file.gguf() && std::ranges::count(windowed, true) != 0) {
    return file.bad(keys::kWindow, "0", "1.." + std::to_string(kMaxPositions) + ", or none");
  }
  for (size_t l = 0; l < config.n_layers; ++l) config.layers[l].window = windowed[l] ? window : 0;
  return {};
}

// Reads chunks from GGUF, which has no key for them: layers have chunks unless the window is 0. The constants are those
// of llama.cpp.
Status read_gguf_chunks(const Hyperparameters& file, ModelConfig& config) {
  constexpr size_t kChunk = 8192, kUsualPeriod = 4;
  TRY_ASSIGN(const size_t window, file.integer(keys::kWindow, 0, kMaxPositions, kChunk));
  if (window == 0) {  // no chunks, so every layer has rope
    for (LayerConfig& layer : config.layers) layer.rope = 0;
    return {};
  }
  TRY_ASSIGN(const size_t period, file.integer(keys::kWindowPattern, 0, kMaxLayers, kUsualPeriod));
  config.attention_chunk = kChunk;
  for (size_t l = 0; l < config.n_layers; ++l) config.layers[l].chunked = has_window_by_period(l, period);
  return {};
}

// Reads which layers attend within chunks only.
Status read_chunks(const Hyperparameters& file, ModelConfig& config) {
  if (file.gguf()) return read_gguf_chunks(file, config);
  constexpr Key kChunk{"chunk of attention", "", "attention_chunk_size"};
  if (!file.has(kChunk)) return {};
  TRY_ASSIGN(config.attention_chunk, file.integer(kChunk, 1, kMaxPositions));
  if (config.attention_chunk % kPagePositions != 0) {
    return {ErrorCode::kUnsupported, file.file().path() + ": " + file.key_of(kChunk) + " is " +
                                         std::to_string(config.attention_chunk) + ", supported are multiples of " +
                                         std::to_string(kPagePositions)};
  }
  TRY_ASSIGN(const auto types, file.texts(kLayerTypes, config.n_layers));
  for (size_t l = 0; l < config.n_layers; ++l) {
    LayerConfig& layer = config.layers[l];
    layer.chunked = types ? (*types)[l] == "chunked_attention" : layer.rope != kNoRope;
    if (types && !layer.chunked && (*types)[l] != "full_attention") {
      return {ErrorCode::kUnsupported, file.file().path() + ": layer type '" + std::string((*types)[l]) +
                                           "' is not supported (supported: full_attention, chunked_attention)"};
    }
  }
  return {};
}

// Reads a list with a number for each layer: 1 if the layer has rope, else 0.
Status read_listed_ropes(const Hyperparameters& file, ModelConfig& config) {
  constexpr Key kListed{"layers with rope", "", "no_rope_layers"};
  constexpr Key kPeriod{"period of layers without rope", "", "no_rope_layer_interval"};
  constexpr size_t kUsualPeriod = 4;
  const auto values = file.file().get_ints(file.key_of(kListed));
  const bool is_empty = values.ok() && *values && (*values)->empty();  // an empty list counts as missing
  std::optional<std::vector<size_t>> listed;
  if (!is_empty) {
    TRY_ASSIGN(listed, file.per_layer(kListed, 0, 1, config.n_layers));
  }
  TRY_ASSIGN(const size_t period, file.integer(kPeriod, 1, kMaxLayers, kUsualPeriod));
  for (size_t l = 0; l < config.n_layers; ++l) {
    const bool has_rope = listed ? (*listed)[l] == 1 : (l + 1) % period != 0;
    if (!has_rope) config.layers[l].rope = kNoRope;
  }
  return {};
}

// Reads whether a model has rope at all: models that mix attention with recurrent layers often have none.
Status read_named_rope(const Hyperparameters& file, ModelConfig& config) {
  constexpr Key kName{"type of position embedding", "", "position_embedding_type"};
  TRY_ASSIGN(const std::optional<std::string> name, file.text(kName));
  TRY_ASSIGN(const bool has_rope, file.flag(keys::kRopeUsed, file.gguf() || (name && *name == "rope")));
  if (has_rope) return {};
  for (LayerConfig& layer : config.layers) layer.rope = kNoRope;
  return {};
}

// Reads whether a model has rope, for families in which the file must enable it or have a theta.
Status read_optional_rope(const Hyperparameters& file, const Architecture& row, ModelConfig& config) {
  constexpr Key kTheta{"rope_theta", "rope.freq_base", "rope_parameters.rope_theta|rope_theta"};
  constexpr Key kUseRope{"use of rope", "", "use_mem_rope"};
  bool has_rope = true;
  if (row.rope_layers == RopeLayers::kIfTheta) has_rope = file.has(kTheta);
  if (row.rope_layers == RopeLayers::kIfEnabled) {
    TRY_ASSIGN(has_rope, file.flag(kUseRope, false));
  }
  for (LayerConfig& layer : config.layers) layer.rope = has_rope ? layer.rope : kNoRope;
  return {};
}

void choose_ropes_by_window(RopeLayers rule, ModelConfig& config) {
  const bool any = std::ranges::any_of(config.layers, [](const LayerConfig& layer) { return layer.window != 0; });
  for (LayerConfig& layer : config.layers) {
    if (rule == RopeLayers::kNone || rule == RopeLayers::kNever) layer.rope = kNoRope;
    if (rule == RopeLayers::kWindowed && any && layer.window == 0) layer.rope = kNoRope;
    if (rule == RopeLayers::kTwoRules) layer.rope = layer.window == 0 ? 0 : 1;
  }
}

Result<Activation::Kind> read_activation(const Hyperparameters& file, const Architecture& row) {
  using enum Activation::Kind;
  constexpr Key kKey{"activation", "", "hidden_activation|hidden_act|mlp_hidden_act|activation_function|activation"};
  // transformers reads hidden_activation of Gemma files only; their hidden_act was never applied.
  constexpr Key kGemmaKey{"activation", "", "hidden_activation"};
  const Key& key = row.activation == kGeluTanh && row.embed_scale_is_sqrt_dim ? kGemmaKey : kKey;
  TRY_ASSIGN(const std::optional<std::string> name, file.text(key));
  if (!name) return row.activation;
  struct Name {
    const char* name;
    Activation::Kind kind;
  };
  constexpr Name kNames[] = {{"silu", kSilu},         {"swish", kSilu},         {"gelu", kGelu},
                             {"gelu_new", kGeluTanh}, {"gelu_fast", kGeluTanh}, {"gelu_pytorch_tanh", kGeluTanh},
                             {"relu2", kReluSquared}, {"xielu", kXielu}};
  std::string supported;
  for (const Name& known : kNames) {
    if (*name == known.name) return known.kind;
    append_part(supported, known.name);
  }
  return Status(ErrorCode::kUnsupported, file.file().path() + ": " + file.key_of(key) + " '" + *name +
                                             "' is not supported (supported: " + supported + ")");
}

double softplus(double x) { return std::log1p(std::exp(-std::abs(x))) + std::max(x, 0.0); }

Status read_xielu(const Hyperparameters& file, ModelConfig& config) {
  TRY_ASSIGN(const auto alpha_p, read_xielu_numbers(file, config, keys::kXieluAlphaP));
  TRY_ASSIGN(const auto alpha_n, read_xielu_numbers(file, config, keys::kXieluAlphaN));
  TRY_ASSIGN(const auto beta, read_xielu_numbers(file, config, keys::kXieluBeta));
  TRY_ASSIGN(const auto eps, read_xielu_numbers(file, config, keys::kXieluEps));
  for (size_t l = 0; l < config.n_layers; ++l) {
    Activation& f = config.layers[l].activation;
    f.alpha_p = static_cast<float>(softplus(double{alpha_p[l]}));
    f.alpha_n = static_cast<float>(double{beta[l]} + softplus(double{alpha_n[l]}));
    f.beta = beta[l];
    f.eps = eps[l];
  }
  return {};
}

// Returns the x at which the standard normal distribution function is p, by Newton's method with the density as slope.
double normal_quantile(double p) {
  double x = 0;
  for (int step = 0; step < 200; ++step) {
    const double missing = p - 0.5 * std::erfc(-x / std::sqrt(2.0));
    const double slope = std::exp(-0.5 * x * x) / std::sqrt(2.0 * std::numbers::pi);
    x += std::clamp(missing / slope, -0.5, 0.5);
  }
  return x;
}

// Reads LayerConfig::gate_cutoff. config.json has the share of gate activations that become 0, GGUF the cutoff below
// which they become 0, in standard deviations (infinite: no cutoff).
Status read_gate_cutoffs(const Hyperparameters& file, const Architecture& row, ModelConfig& config) {
  constexpr Key kShares{"sparsity of gate activations", "", "activation_sparsity_pattern"};
  constexpr double kUsualShare = 0.95;
  const Key& key = file.gguf() ? keys::kGateCutoffs : kShares;
  TRY_ASSIGN(const auto listed, file.numbers_or_infinity(key, config.n_layers));
  for (size_t l = 0; l < config.n_layers; ++l) {
    std::optional<float>& cutoff = config.layers[l].gate_cutoff;
    if (!listed) {
      if (file.gguf() && l < row.gguf_default_cutoff_layers) cutoff = static_cast<float>(normal_quantile(kUsualShare));
    } else if (file.gguf()) {
      if (std::isfinite((*listed)[l])) cutoff = static_cast<float>((*listed)[l]);
    } else if (const double share = (*listed)[l]; share != 0) {
      if (!(share > 0 && share < 1)) {
        return file.bad(key, "an array with " + std::to_string(share), "shares from 0 to below 1");
      }
      cutoff = static_cast<float>(normal_quantile(share));
    }
  }
  return {};
}

}  // namespace

Result<std::vector<float>> read_xielu_numbers(const Hyperparameters& file, const ModelConfig& config, const Key& key) {
  std::vector<float> all;
  if (file.gguf()) {
    TRY_ASSIGN(const auto listed, file.numbers(key, config.n_layers));
    const std::vector<double> values = listed.value_or(std::vector<double>());
    if (values.empty()) {
      return Status(ErrorCode::kMissingKey, file.file().path() + ": " + file.key_of(key) + " is missing");
    }
    return std::vector<float>(values.begin(), values.end());
  }
  for (size_t l = 0; l < config.n_layers; ++l) {
    const std::string name = config.name_prefix + "layers." + std::to_string(l) + ".mlp.act_fn." + key.hf;
    const TensorView* tensor = file.file().find_tensor(name);
    if (tensor == nullptr) {
      return Status(ErrorCode::kMissingTensor, file.file().path() + ": tensor " + name + " is missing");
    }
    if (tensor->shape.elements() != 1 || !dtype_is_float(tensor->dtype)) {
      return Status(ErrorCode::kBadShape, file.file().path() + ": tensor " + name + " is " + tensor->shape.to_string() +
                                              ", expected one number");
    }
    float value = 0;
    dequantize_row(tensor->dtype, tensor->data, std::span(&value, 1));
    if (!std::isfinite(value)) {
      return Status(ErrorCode::kNonFinite, file.file().path() + ": tensor " + name + " is not finite");
    }
    all.push_back(value);
  }
  return all;
}

Status read_layers(const Hyperparameters& file, const Architecture& row, ModelConfig& config) {
  if (row.rope_layers == RopeLayers::kListed) TRY(read_listed_ropes(file, config));
  if (row.rope_layers == RopeLayers::kIfNamed) TRY(read_named_rope(file, config));
  TRY(read_optional_rope(file, row, config));
  TRY(read_windows(file, row, config));
  if (row.windows == Windows::kChunks) TRY(read_chunks(file, config));
  choose_ropes_by_window(row.rope_layers, config);
  TRY_ASSIGN(const Activation::Kind kind, read_activation(file, row));
  for (LayerConfig& layer : config.layers) layer.activation.kind = kind;
  TRY(read_gate_cutoffs(file, row, config));
  return kind == Activation::Kind::kXielu ? read_xielu(file, config) : Status();
}

}  // namespace ibid
