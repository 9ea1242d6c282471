// The matrix that expands the latents of keys and values, as attention over latent rows needs it: the part of values as
// the file has it, and that of keys turned (model/config/latent_attention.h). Blocks of numbers lie along the rows of
// the file, so that a turned part of quantised weights is decoded to F32, which is exact; floats keep their type.
#pragma once

#include <memory>

#include "model/config/config.h"
#include "model/tensors/tensor_source.h"

namespace ibid {

struct LatentExpansionSources {
  TensorSource keys, values;
  std::unique_ptr<RowSource> turned;   // of `keys`; it reads from `whole`
};

// whole: [H (nope_dim + value_dim), kv_rank], of each head the rows of keys and then those of values.
LatentExpansionSources split_latent_expansion(const ModelConfig& config, const TensorSource& whole);

}  // namespace ibid
