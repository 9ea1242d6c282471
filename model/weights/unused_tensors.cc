#include "model/weights/unused_tensors.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <set>
#include <string_view>

#include "model/tensors/tensor_source.h"
#include "weights/block_formats.h"
#include "weights/model_file.h"

namespace ibid {

namespace {

using enum TensorRole;

constexpr const char* kOfMask = "causal mask";
constexpr const char* kOfRope = "part of RoPE";
constexpr const char* kOfDecay = "part of the decay rule";
constexpr const char* kTurnedOff = "scale disabled by the configuration";
constexpr const char* kOfInt8 = "INT8 activation or KV scale, not used";
constexpr const char* kOfParts = "part of a packed tensor";
constexpr const char* kOfActivation = "activation parameter, read separately";
constexpr const char* kOfSplit = "duplicate of a fused tensor";
constexpr const char* kOfOthers = "KV of a layer that shares another's";
constexpr const char* kZeros = "bias of zeros";
constexpr const char* kTied = "tied LM head";
constexpr const char* kGuesses = "multi-token prediction layer";

// A kind of tensor that may be ignored, recognised by the end of its name.
struct Ending {
  std::string_view ending;
  const char* reason;
};
constexpr Ending kEndings[] = {
    {"rotary_emb.inv_freq", kOfRope},
    {".input_scale", kOfInt8},
    {".output_scale", kOfInt8},
    {".q_scale", kOfInt8},
    {".k_scale", kOfInt8},
    {".v_scale", kOfInt8},
    {".kv_scale", kOfInt8},
    {".prob_scale", kOfInt8},
    {".input_scale_ub", kOfInt8},
    {"attn_rot_embd.weight", kOfRope},
    {".slope_rate", kOfDecay},
    {".query_decay", kOfDecay},
    {".key_decay", kOfDecay},
    {".diagonal_decay", kOfDecay},
    {".weight_shape", kOfParts},
    {".g_idx", kOfParts},
    {".weight_g_idx", kOfParts},
};
// Buffers that early checkpoints store among the weights, by their names after the layer number.
constexpr std::string_view kMasks[] = {"attn.bias", "attn.masked_bias", "attention.bias", "attention.masked_bias"};
// Tensors that rope_rules.cc reads (model/architectures/rules.h).
constexpr std::string_view kRopeTensors[] = {"rope_freqs.weight", "rope_factors_long.weight",
                                             "rope_factors_short.weight"};

// Prefixes of tensors that do not belong to the language model, after the prefix that all tensors of the file have.
constexpr std::string_view kBeside[] = {"vision", "visual",    "audio",        "speech",      "image", "multi_modal",
                                        "mm_",    "projector", "embed_vision", "embed_audio", "mtp"};
constexpr std::string_view kBesideInGguf[] = {"v.", "a.", "mm.", "mtp."};

bool is_zero(const TensorView& tensor) {
  if (tensor.shape.rank != 1 || !dtype_is_float(tensor.dtype) || tensor.source != nullptr) return false;
  std::vector<float> values(tensor.shape.elements());
  dequantize_row(tensor.dtype, tensor.data, values);
  return std::ranges::all_of(values, [](float value) { return value == 0; });
}

// The names of the tensors that the tensor table finds in a file, and addresses of tensors stored in parts.
class Used {
 public:
  Used(const ModelFile& file, const ModelConfig& config) {
    for (const TensorRow& row : tensor_table()) {
      const size_t n_layers = row.per_layer() ? config.n_layers : 1;
      for (size_t layer = 0; layer < n_layers; ++layer) {
        for (size_t copy = 0; copy < n_copies(row, config, layer); ++copy) add(file, config, row, layer, copy);
      }
    }
  }
  bool contains(const std::string& name, const TensorView& tensor) const {
    return names_.contains(name) || (!tensor.data.empty() && parts_.contains(tensor.data.data()));
  }

 private:
  void add(const ModelFile& file, const ModelConfig& config, const TensorRow& row, size_t layer, size_t copy) {
    const Result<TensorSource> source = find_source(file, config, row, layer, copy);
    if (!source.ok() || !source->found()) return;
    for (const TensorView& part : source->parts) parts_.insert(part.data.data());
    if (!names_.insert(source->name).second) return;
    if (source->tensor.source == nullptr) return;
    for (const std::span<const std::byte> part : source->tensor.source->parts()) parts_.insert(part.data());
  }

  std::set<std::string> names_;
  std::set<const std::byte*> parts_;
};

class Sorter {
 public:
  Sorter(const ModelFile& file, const ModelConfig& config)
      : file_(file), config_(config), gguf_(file.container() == Container::kGguf) {
    // Every layer has this tensor, so the text before its layer number is the prefix of all layers.
    const std::string of_first = tensor_name(file, config, kWo, 0);
    const size_t number = of_first.find(".0.");
    if (number != std::string::npos) layers_ = of_first.substr(0, number + 1);
  }

  UnusedTensor sort(const std::string& name, const TensorView& tensor) const {
    if (const std::optional<size_t> layer = layer_of(name)) {
      if (*layer >= config_.n_layers) return {name, kGuesses, false};
      return {name, reason_in_layer(name, *layer, tensor), true};
    }
    if (std::ranges::find(kRopeTensors, name) != std::end(kRopeTensors)) return {name, kOfRope, false};
    if (!is_of_model(name)) return {name, nullptr, false};
    if (config_.tied && name == tensor_name(file_, config_, kLmHead)) return {name, kTied, true};
    const char* reason = reason_by_ending(name);
    return {name, reason == nullptr && is_bias_of_zeros(name, tensor) ? kZeros : reason, true};
  }

 private:
  // True if a tensor outside of the layers belongs to the language model. In GGUF all such tensors do, except those
  // with a known prefix of another part. In checkpoints a tensor does if its prefix is that of the model's other
  // tensors or of its LM head.
  bool is_of_model(std::string_view name) const {
    const auto begins = [&](std::string_view beginning) { return name.starts_with(beginning); };
    if (gguf_) return std::ranges::none_of(kBesideInGguf, begins);
    const std::string head = tensor_name(file_, config_, kLmHead);
    if (begins(std::string_view(head).substr(0, head.rfind('.') + 1))) return true;
    if (config_.name_prefix.empty() || !begins(config_.name_prefix)) return false;
    name.remove_prefix(config_.name_prefix.size());
    return std::ranges::none_of(kBeside, begins);
  }

  std::optional<size_t> layer_of(const std::string& name) const {
    if (layers_.empty() || !name.starts_with(layers_)) return {};
    size_t layer = 0;
    const char* end = name.data() + name.size();
    const auto [after, error] = std::from_chars(name.data() + layers_.size(), end, layer);
    if (error != std::errc() || after == end || *after != '.') return {};
    return layer;
  }

  static const char* reason_by_ending(std::string_view name) {
    const auto* known = std::ranges::find_if(kEndings, [&](const Ending& e) { return name.ends_with(e.ending); });
    return known == std::end(kEndings) ? nullptr : known->reason;
  }
  static bool is_bias_of_zeros(std::string_view name, const TensorView& tensor) {
    return name.ends_with(".bias") && is_zero(tensor);
  }

  const char* reason_in_layer(const std::string& name, size_t layer, const TensorView& tensor) const {
    const std::string_view rest = std::string_view(name).substr(layers_.size() + std::to_string(layer).size() + 1);
    if (const char* reason = reason_by_ending(name)) return reason;
    // attn.bias may also be a real bias, which has one dimension; the buffers have more.
    if (std::ranges::find(kMasks, rest) != std::end(kMasks) && tensor.shape.rank != 1) return kOfMask;
    if (is_bias_of_zeros(name, tensor)) return kZeros;
    const LayerConfig& of_layer = config_.layers[layer];
    const bool has_xielu = of_layer.activation.kind == Activation::Kind::kXielu;
    if (has_xielu && rest.starts_with("mlp.act_fn.")) return kOfActivation;
    if (!config_.altup.scales_active && name == tensor_name(file_, config_, kAltUpScale, layer)) return kTurnedOff;
    if (gguf_ && config_.latent.used() && (rest == "attn_k_b.weight" || rest == "attn_v_b.weight")) return kOfSplit;
    if (of_layer.writes_kv) return nullptr;
    for (const TensorRole role : {kWk, kWv, kBk, kBv, kKNorm}) {
      if (name == tensor_name(file_, config_, role, layer)) return kOfOthers;
    }
    return nullptr;
  }

  const ModelFile& file_;
  const ModelConfig& config_;
  bool gguf_;
  std::string layers_;  // prefix of the layers, such as "model.layers."
};

}  // namespace

std::vector<UnusedTensor> unused_tensors(const ModelFile& file, const ModelConfig& config) {
  const Used used(file, config);
  const Sorter sorter(file, config);
  std::vector<UnusedTensor> unused;
  for (const std::string& name : file.tensor_names()) {
    const TensorView* tensor = file.find_tensor(name);
    if (tensor != nullptr && !used.contains(name, *tensor)) unused.push_back(sorter.sort(name, *tensor));
  }
  return unused;
}

Status refuse_unknown_tensors(const ModelFile& file, const ModelConfig& config) {
  for (const UnusedTensor& tensor : unused_tensors(file, config)) {
    if (!tensor.of_model || tensor.reason != nullptr) continue;
    return {ErrorCode::kUnsupported, file.path() + ": unknown tensor " + tensor.name + " in a model of architecture " +
                                         config.architecture + "; ignoring it would change the results"};
  }
  return {};
}

}  // namespace ibid
