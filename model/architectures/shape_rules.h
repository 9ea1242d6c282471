// How many layers, heads and dimensions a model has, and which layer keeps whose keys and values.
// Parts of read_config().
#pragma once

#include "model/architectures/architecture.h"
#include "model/architectures/hyperparameters.h"

namespace ibid {

// Reads what is common to all layers, and the width of each MLP. Errors: those of Hyperparameters.
Status read_shape(const Hyperparameters& file, const Architecture& row, ModelConfig& config);

// The heads of each layer, and whose rows it reads. REQUIRES: windows are known. Errors: likewise.
Status read_heads(const Hyperparameters& file, const Architecture& row, ModelConfig& config);

// AltUp, LAuReL, and what a token gives to each layer, of files that have them. Errors: likewise; kMissingTensor.
Status read_beside_layers(const Hyperparameters& file, ModelConfig& config);

}  // namespace ibid
