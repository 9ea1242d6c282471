#include "apps/convert/conversion_types.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "weights/block_formats.h"

namespace ibid {

namespace {

constexpr std::array kFileTypes = {
    FileType{"F32", 0, DType::kF32, DType::kF32, false},      FileType{"F16", 1, DType::kF16, DType::kF16, false},
    FileType{"BF16", 32, DType::kBF16, DType::kBF16, false},  FileType{"Q8_0", 7, DType::kQ8_0, DType::kQ8_0, false},
    FileType{"Q4_0", 2, DType::kQ4_0, DType::kQ6_K, false},   FileType{"Q4_1", 3, DType::kQ4_1, DType::kQ6_K, false},
    FileType{"Q5_0", 8, DType::kQ5_0, DType::kQ6_K, false},   FileType{"Q5_1", 9, DType::kQ5_1, DType::kQ6_K, false},
    FileType{"Q4_K_M", 15, DType::kQ4_K, DType::kQ6_K, true}, FileType{"Q5_K_M", 17, DType::kQ5_K, DType::kQ6_K, true},
    FileType{"Q6_K", 18, DType::kQ6_K, DType::kQ6_K, false},
};

// Returns the layer in a tensor's name: 7 for "blk.7.attn_v.weight".
std::optional<size_t> layer_of(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  size_t layer = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  return error == std::errc() ? std::optional(layer) : std::nullopt;
}

// As use_more_bits of llama.cpp: true for the first and last eighth of the layers, and for every third between.
bool takes_more_bits(size_t layer, size_t n_layers) {
  const size_t eighth = n_layers / 8;
  return layer < eighth || layer >= 7 * n_layers / 8 || (layer - eighth) % 3 == 2;
}

// If the row length is not a multiple of 256 values, returns the nearest type with blocks of 32 values, or F16.
DType that_fits(DType dtype, uint64_t row) {
  if (row % dtype_block(dtype).values == 0) return dtype;
  const DType smaller = dtype == DType::kQ4_K ? DType::kQ5_0 : dtype == DType::kQ5_K ? DType::kQ5_1 : DType::kQ8_0;
  return row % dtype_block(smaller).values == 0 ? smaller : DType::kF16;
}

bool is_weight_of_products(std::string_view name, const TensorView& tensor) {
  if (tensor.shape.rank < 2 || !can_dequantize(tensor.dtype) || !name.ends_with("weight")) return false;
  constexpr std::string_view kOthers[] = {"_norm.weight", "ffn_gate_inp",   "position_embd",       "token_types",
                                          "ssm_conv1d",   "shortconv.conv", "time_mix_",           "attn_rel_b",
                                          "altup",        "laurel",         "per_layer_model_proj"};
  return std::ranges::none_of(kOthers, [&](std::string_view other) { return name.find(other) != name.npos; });
}

}  // namespace

const FileType* find_file_type(std::string_view name) {
  const auto* found = std::ranges::find(kFileTypes, name, &FileType::name);
  return found == kFileTypes.end() ? nullptr : found;
}

const FileType* find_file_type(DType matrices) {
  const auto* found = std::ranges::find(kFileTypes, matrices, &FileType::matrices);
  return found == kFileTypes.end() ? nullptr : found;
}

std::vector<std::string> file_type_names() {
  std::vector<std::string> names;
  for (const FileType& type : kFileTypes) names.emplace_back(type.name);
  return names;
}

DType converted_type(const FileType& file_type, std::string_view name, const TensorView& tensor,
                     const ModelShape& model) {
  if (!is_weight_of_products(name, tensor)) return tensor.dtype;
  const bool is_head = name == "output.weight" || (name == "token_embd.weight" && !model.has_head);
  DType dtype = is_head ? file_type.larger : file_type.matrices;
  const std::optional<size_t> layer = layer_of(name);
  const bool matters = name.ends_with("attn_v.weight") || name.find("ffn_down") != name.npos;
  if (file_type.mixture && matters && layer && takes_more_bits(*layer, model.n_layers)) dtype = file_type.larger;
  return that_fits(dtype, tensor.shape[tensor.shape.rank - 1]);
}

}  // namespace ibid
