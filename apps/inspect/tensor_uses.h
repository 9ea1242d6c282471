// Says what each tensor of a file is for: by the tensor table if the architecture is known, else by its name. It
// reads no weights.
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
  std::string_view tensor_class;  // "attention"; kUnused for what the model does not read
  std::string_view role;          // the table's own name, the same in every layer; empty where it is not known
  size_t layer = kNoLayer;        // model/config/config.h
};

inline constexpr std::string_view kUnusedClass = "not used";

// Every tensor once, those of the model in the table's order, then what else the file has. config: nullptr where the
// architecture is not known; then nothing is unused. Parts of a tensor that is kept in parts (weights/made_tensors.h)
// are not listed beside it.
std::vector<TensorUse> tensor_uses(const ModelFile& file, const ModelConfig* config);

// "attention", "MLP", "experts", "shared experts", "router", "embedding", "head", "norms", "vectors" or "other", by the
// words in a tensor's name.
std::string_view class_of_tensor(std::string_view name, bool is_matrix);

// Numbers of the model: all of them, and those that one token is multiplied by (or, of the embedding, looked up in).
struct ParameterCount {
  uint64_t total = 0, active = 0;
};
ParameterCount count_parameters(const std::vector<TensorUse>& uses, const ModelConfig* config);

// The tensors of one class and type.
struct TypeShare {
  std::string_view tensor_class;
  std::string_view type;
  size_t n_tensors = 0;
  uint64_t bytes = 0;
};
// By class in the order of the first tensor of each, within one by bytes.
std::vector<TypeShare> type_shares(const std::vector<TensorUse>& uses);

}  // namespace ibid
