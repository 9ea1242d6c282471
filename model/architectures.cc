#include "model/architectures.h"

#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/checked.h"
#include "weights/model_file.h"

namespace ibid {

namespace {

// What an architecture adds to the common keys. A new one is a new row.
struct Architecture {
  std::string_view gguf_name;      // general.architecture
  std::string_view hf_model_type;  // config.json: model_type
  bool gguf_permutes_qk;           // GGUF conversion interleaved the rows of wq and wk
  bool window_on_all_layers;       // config.json's sliding_window holds for every layer
};

constexpr std::array kArchitectures = {
    Architecture{"llama", "llama", true, false},
};

// One hyperparameter: where each container keeps it and what it may be.
// GGUF keys stand behind "<architecture>."; an empty key is one that the container does not have.
struct Key {
  const char* name;  // ours
  const char* gguf;
  const char* hf;
};

constexpr Key kNLayers{"n_layers", "block_count", "num_hidden_layers"};
constexpr Key kDim{"dim", "embedding_length", "hidden_size"};
constexpr Key kFfnDim{"ffn_dim", "feed_forward_length", "intermediate_size"};
constexpr Key kNHeads{"n_heads", "attention.head_count", "num_attention_heads"};
constexpr Key kNKvHeads{"n_kv_heads", "attention.head_count_kv", "num_key_value_heads"};
constexpr Key kHeadDim{"head_dim", "attention.key_length", "head_dim"};
constexpr Key kTrainedContext{"trained_context", "context_length", "max_position_embeddings"};
constexpr Key kVocabSize{"vocab_size", "vocab_size", "vocab_size"};
constexpr Key kNormEps{"norm_eps", "attention.layer_norm_rms_epsilon", "rms_norm_eps"};
constexpr Key kWindow{"window", "attention.sliding_window", "sliding_window"};
constexpr Key kRotaryDim{"rotary_dim", "rope.dimension_count", ""};
constexpr Key kRopeTheta{"rope_theta", "rope.freq_base", "rope_theta"};
constexpr Key kValueDim{"value head_dim", "attention.value_length", ""};

// Limits beyond any real model, small enough that no product of two of them overflows.
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxWidth = 1 << 22;
constexpr int64_t kMaxPositions = int64_t{1} << 30;

// Reads hyperparameters of one file, with errors that name file and key.
class Reader {
 public:
  Reader(const ModelFile& file, std::string_view prefix) : file_(file), prefix_(prefix) {}

  std::string key_of(const Key& key) const {
    return file_.container() == Container::kGguf ? prefix_ + key.gguf : std::string(key.hf);
  }

  Status bad(const Key& key, const std::string& value, const std::string& range) const {
    return {ErrorCode::kBadHyperparameter,
            file_.path() + ": " + key_of(key) + " is " + value + ", wanted " + range};
  }

  // The integer at `key` in [low, high]; `fallback` when the file does not have it.
  Result<size_t> integer(const Key& key, int64_t low, int64_t high, std::optional<size_t> fallback = {}) const {
    std::optional<int64_t> value;
    const std::string name = key_of(key);
    if (has(key)) {
      TRY_ASSIGN(value, file_.get_int(name));
    }
    if (!value) {
      if (fallback) return *fallback;
      return Status(ErrorCode::kMissingKey, file_.path() + ": " + name + " (" + key.name + ") is missing");
    }
    if (*value < low || *value > high) {
      return bad(key, std::to_string(*value), std::to_string(low) + ".." + std::to_string(high));
    }
    return static_cast<size_t>(*value);
  }

  // A finite number in (0, high]; `fallback` when the file does not have it.
  Result<double> positive(const Key& key, double high, std::optional<double> fallback = {}) const {
    std::optional<double> value;
    const std::string name = key_of(key);
    if (has(key)) {
      TRY_ASSIGN(value, file_.get_float(name));
    }
    if (!value) {
      if (fallback) return *fallback;
      return Status(ErrorCode::kMissingKey, file_.path() + ": " + name + " (" + key.name + ") is missing");
    }
    if (!(*value > 0 && *value <= high)) return bad(key, std::to_string(*value), "a positive number");
    return *value;
  }

  bool has(const Key& key) const {
    const bool known = *(file_.container() == Container::kGguf ? key.gguf : key.hf) != '\0';
    return known && file_.has(key_of(key));
  }

 private:
  const ModelFile& file_;
  std::string prefix_;
};

std::string supported_list() {
  std::string list;
  for (const std::string& name : supported_architectures()) list += (list.empty() ? "" : ", ") + name;
  return list;
}

Result<const Architecture*> find_architecture(const ModelFile& file) {
  const bool gguf = file.container() == Container::kGguf;
  const char* key = gguf ? "general.architecture" : "model_type";
  TRY_ASSIGN(const std::optional<std::string_view> name, file.get_string(key));
  if (!name) return Status(ErrorCode::kMissingKey, file.path() + ": " + key + " is missing");
  for (const Architecture& row : kArchitectures) {
    if ((gguf ? row.gguf_name : row.hf_model_type) == *name) return &row;
  }
  return Status(ErrorCode::kUnsupported, file.path() + ": architecture '" + std::string(*name) +
                                             "' is not supported (supported: " + supported_list() + ")");
}

Status unsupported_rope(const ModelFile& file, std::string_view kind) {
  return {ErrorCode::kUnsupported, file.path() + ": rope scaling '" + std::string(kind) +
                                       "' is not supported (supported: linear, llama3)"};
}

// GGUF: the rule's name and factor; llama3's rule arrives as a tensor of frequency factors.
Status read_gguf_rope(const ModelFile& file, const std::string& prefix, RopeRule& rope) {
  const Reader reader(file, prefix);
  TRY_ASSIGN(rope.theta, reader.positive(kRopeTheta, 1e12, 10000.0));
  TRY_ASSIGN(const auto kind, file.get_string(prefix + "rope.scaling.type"));
  constexpr Key kFactor{"rope factor", "rope.scaling.factor", ""};
  constexpr Key kOldFactor{"rope factor", "rope.scale_linear", ""};
  if (kind && *kind != "none" && *kind != "linear") return unsupported_rope(file, *kind);
  if (kind ? *kind == "linear" : reader.has(kOldFactor)) {
    rope.kind = RopeRule::Kind::kLinear;
    TRY_ASSIGN(rope.factor, reader.positive(reader.has(kFactor) ? kFactor : kOldFactor, 1e6));
  }
  const TensorView* factors = file.find_tensor("rope_freqs.weight");
  if (factors == nullptr) return {};
  const size_t wanted = rope.rotary_dim / 2;
  if (factors->dtype != DType::kF32 || factors->shape.elements() != wanted) {
    return {ErrorCode::kBadShape, file.path() + ": rope_freqs.weight is " +
                                      std::string(dtype_name(factors->dtype)) + " " +
                                      factors->shape.to_string() + ", wanted F32 [" + std::to_string(wanted) + "]"};
  }
  rope.frequency_factors.resize(wanted);
  std::memcpy(rope.frequency_factors.data(), factors->data.data(), wanted * sizeof(float));
  for (const float factor : rope.frequency_factors) {
    if (!(factor > 0) || !std::isfinite(factor)) {
      return {ErrorCode::kNonFinite, file.path() + ": rope_freqs.weight holds a factor that is not positive"};
    }
  }
  return {};
}

// config.json: `rope_scaling` beside `rope_theta` (most published files), or both in `rope_parameters`.
Status read_hf_rope(const ModelFile& file, RopeRule& rope) {
  const Reader reader(file, "");
  const bool together = file.has("rope_parameters");
  const std::string scaling = together ? "rope_parameters." : "rope_scaling.";
  const std::string theta_key = together ? "rope_parameters.rope_theta" : "rope_theta";
  const Key theta{"rope_theta", "", theta_key.c_str()};
  TRY_ASSIGN(rope.theta, reader.positive(theta, 1e12, 10000.0));
  if (!together && !file.has("rope_scaling")) return {};

  TRY_ASSIGN(auto kind, file.get_string(scaling + "rope_type"));
  if (!kind) {
    TRY_ASSIGN(kind, file.get_string(scaling + "type"));
  }
  if (!kind || *kind == "default") return {};
  if (*kind != "linear" && *kind != "llama3") return unsupported_rope(file, *kind);

  const auto number = [&](const char* name, std::optional<double> fallback = {}) {
    const std::string full = scaling + name;
    return reader.positive(Key{name, "", full.c_str()}, 1e9, fallback);
  };
  TRY_ASSIGN(rope.factor, number("factor"));
  if (*kind == "linear") {
    rope.kind = RopeRule::Kind::kLinear;
    return {};
  }
  rope.kind = RopeRule::Kind::kLlama3;
  TRY_ASSIGN(rope.low_freq_factor, number("low_freq_factor"));
  TRY_ASSIGN(rope.high_freq_factor, number("high_freq_factor"));
  TRY_ASSIGN(rope.original_max_positions, number("original_max_position_embeddings"));
  if (rope.high_freq_factor <= rope.low_freq_factor) {
    return {ErrorCode::kBadHyperparameter, file.path() + ": high_freq_factor must be above low_freq_factor"};
  }
  return {};
}

// GGUF often leaves vocab_size out: then the embedding's rows say it.
Result<size_t> read_vocab_size(const ModelFile& file, const Reader& reader) {
  const char* name = file.container() == Container::kGguf ? "token_embd.weight" : "model.embed_tokens.weight";
  const TensorView* embed = file.find_tensor(name);
  if (embed == nullptr) return Status(ErrorCode::kMissingTensor, file.path() + ": " + name + " is missing");
  if (embed->shape.rank != 2 || embed->shape[0] == 0 || embed->shape[0] > kMaxWidth) {
    return Status(ErrorCode::kBadShape,
                  file.path() + ": " + name + " is " + embed->shape.to_string() + ", wanted [vocab_size, dim]");
  }
  return reader.integer(kVocabSize, 1, kMaxWidth, embed->shape[0]);
}

Status read_shape(const ModelFile& file, const Reader& reader, ModelConfig& config) {
  TRY_ASSIGN(config.n_layers, reader.integer(kNLayers, 1, kMaxLayers));
  TRY_ASSIGN(config.dim, reader.integer(kDim, 1, kMaxWidth));
  TRY_ASSIGN(config.ffn_dim, reader.integer(kFfnDim, 1, kMaxWidth));
  TRY_ASSIGN(config.n_heads, reader.integer(kNHeads, 1, kMaxWidth));
  TRY_ASSIGN(config.n_kv_heads, reader.integer(kNKvHeads, 1, kMaxWidth, config.n_heads));
  TRY_ASSIGN(config.trained_context, reader.integer(kTrainedContext, 1, kMaxPositions));
  if (config.n_heads % config.n_kv_heads != 0) {
    return reader.bad(kNKvHeads, std::to_string(config.n_kv_heads),
                      "a divisor of n_heads, " + std::to_string(config.n_heads));
  }
  if (!reader.has(kHeadDim) && config.dim % config.n_heads != 0) {
    return reader.bad(kNHeads, std::to_string(config.n_heads), "a divisor of dim, " + std::to_string(config.dim));
  }
  TRY_ASSIGN(config.head_dim, reader.integer(kHeadDim, 1, 1024, config.dim / config.n_heads));
  TRY_ASSIGN(const size_t value_dim, reader.integer(kValueDim, 1, 1024, config.head_dim));
  if (value_dim != config.head_dim) {
    return reader.bad(kValueDim, std::to_string(value_dim), std::to_string(config.head_dim) + " as for keys");
  }
  if (config.head_dim % 2 != 0) return reader.bad(kHeadDim, std::to_string(config.head_dim), "an even number");
  TRY_ASSIGN(config.vocab_size, read_vocab_size(file, reader));
  return {};
}

}  // namespace

std::vector<std::string> supported_architectures() {
  std::vector<std::string> names;
  for (const Architecture& row : kArchitectures) names.emplace_back(row.gguf_name);
  return names;
}

Result<ModelConfig> read_config(const ModelFile& file) {
  TRY_ASSIGN(const Architecture* const architecture, find_architecture(file));
  const bool gguf = file.container() == Container::kGguf;
  const std::string prefix = gguf ? std::string(architecture->gguf_name) + "." : "";
  const Reader reader(file, prefix);

  ModelConfig config;
  config.architecture = gguf ? architecture->gguf_name : architecture->hf_model_type;
  TRY(read_shape(file, reader, config));
  config.qk_rows_permuted = gguf && architecture->gguf_permutes_qk;
  TRY_ASSIGN(const double eps, reader.positive(kNormEps, 1.0));
  config.norm_eps = static_cast<float>(eps);
  config.attention_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim)));

  TRY_ASSIGN(config.rope.rotary_dim,
             reader.integer(kRotaryDim, 2, static_cast<int64_t>(config.head_dim), config.head_dim));
  if (config.rope.rotary_dim % 2 != 0) {
    return reader.bad(kRotaryDim, std::to_string(config.rope.rotary_dim), "an even number");
  }
  TRY(gguf ? read_gguf_rope(file, prefix, config.rope) : read_hf_rope(file, config.rope));

  size_t window = 0;
  if (gguf || architecture->window_on_all_layers) {
    TRY_ASSIGN(window, reader.integer(kWindow, 0, kMaxPositions, size_t{0}));
  }
  config.layers.assign(config.n_layers, LayerConfig{window});
  return config;
}

}  // namespace ibid
