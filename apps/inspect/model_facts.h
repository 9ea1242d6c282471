// What an architecture is, in words: a ModelConfig (and which tensors the file has) as facts.
#pragma once

#include "apps/inspect/fact.h"
#include "apps/inspect/tensor_uses.h"
#include "model/config/config.h"
#include "weights/model_file.h"

namespace ibid {

// Of a model whose configuration was read.
Facts model_facts(const ModelFile& file, const ModelConfig& config, const std::vector<TensorUse>& uses);

// Of a file whose configuration cannot be read: what its metadata say of themselves, unchecked.
Facts metadata_facts(const ModelFile& file, const std::vector<TensorUse>& uses);

}  // namespace ibid
