// Reads from a file's metadata in what the layers of one model differ.
#pragma once

#include <vector>

#include "base/result.h"
#include "model/architectures/architecture.h"
#include "model/architectures/hyperparameters.h"
#include "model/config/config.h"

namespace ibid {

// Fills config.layers: windows, the rope of each layer, the activation of each MLP and which gates it cuts.
// REQUIRES: read_shape().
// Errors: kBadHyperparameter (a list of the wrong length, numbers out of range), kUnsupported (a kind of layer or an
// activation, named), kMissingKey, kBadType.
Status read_layers(const Hyperparameters& file, const Architecture& row, ModelConfig& config);

// One of the learned numbers of xIELU (model/architectures/keys.h), by layer: an array in GGUF, else a tensor of each
// layer. Errors: kMissingKey, kMissingTensor, kBadShape, kNonFinite, kBadHyperparameter, kBadType.
Result<std::vector<float>> read_xielu_numbers(const Hyperparameters& file, const ModelConfig& config, const Key& key);

}  // namespace ibid
