// Determines the purpose of each tensor in a file: from the tensor table if the architecture is known, else from the
// tensor's name. Reads no weights.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor_view.h"
#include "model/config/config.h"
#include "weights/model_file.h"

namespace ibid {

struct TensorUse {
  std::string name;
  TensorView tensor;
  std::string_view tensor_class;  // "attention", for example; kUnusedClass if the model does not read the tensor
  std::string_view role;          // name of the tensor in the tensor table, the same in all layers; empty: unknown
  size_t layer = kNoLayer;        // kNoLayer (model/config/config.h): not part of a layer
};

inline constexpr std::string_view kUnusedClass = "not used";

// Returns every tensor once: the model's tensors in the order of the table, then the others. config: nullptr if the
// architecture is unknown; then no tensor is classified as unused. Parts of a composed tensor
// (weights/assembled_tensors.h) are not listed.
std::vector<TensorUse> tensor_uses(const ModelFile& file, const ModelConfig* config);

// Returns "attention", "MLP", "experts", "shared experts", "router", "embedding", "head", "norms", "vectors" or
// "other", depending on words in the name.
std::string_view class_of_tensor(std::string_view name, bool is_matrix);

// Number of parameters: all, and those used for one token (one row of the embedding).
struct ParameterCount {
  uint64_t total = 0, active = 0;
};
ParameterCount count_parameters(const std::vector<TensorUse>& uses, const ModelConfig* config);

// The tensors of one class and type together.
struct TypeShare {
  std::string_view tensor_class;
  std::string_view type;
  size_t n_tensors = 0;
  uint64_t bytes = 0;
};
// Returns the shares, sorted by class and within a class by bytes. Classes are in the order of their first tensors.
std::vector<TypeShare> type_shares(const std::vector<TensorUse>& uses);

}  // namespace ibid
