// The tensor table: every tensor a transformer may have, with its name in each container, its shape and
// whether a file must have it. Presence of an optional tensor is the switch: a model whose file has
// attn_q.bias has query biases.
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "base/tensor_view.h"
#include "model/config.h"
#include "weights/model_file.h"

namespace ibid {

enum class TensorRole {
  kEmbed, kFinalNorm, kLmHead,                                        // once
  kAttnNorm, kWq, kWk, kWv, kWo, kBq, kBk, kBv, kBo,                  // per layer
  kFfnNorm, kWGate, kWUp, kWDown, kBGate, kBUp, kBDown,
};

struct TensorRow {
  TensorRole role;
  const char* gguf;      // '#' stands for the layer
  const char* hf;
  bool required;
  // Dimensions as members of ModelConfig say them: rows [out, in], vectors [n].
  size_t (*rows)(const ModelConfig&);
  size_t (*cols)(const ModelConfig&);  // nullptr: a vector
};

std::span<const TensorRow> tensor_table();
const TensorRow& tensor_row(TensorRole role);

// The name of `role` in this file; `layer` is ignored for tensors that exist once.
std::string tensor_name(const ModelFile& file, TensorRole role, size_t layer = 0);

// The tensor, its shape checked against the configuration; nullptr when it is optional and absent.
// Errors: kMissingTensor, kBadShape (file, tensor, got, wanted), kUnsupported (a type we cannot decode).
Result<const TensorView*> find_checked(const ModelFile& file, const ModelConfig& config, TensorRole role,
                                       size_t layer = 0);

}  // namespace ibid
