// What layers of one model do differently from one another, read from a file's metadata.
#pragma once

#include "base/result.h"
#include "model/architecture.h"
#include "model/config.h"
#include "model/hyperparameters.h"

namespace ibid {

// Fills config.layers: windows, which rope turns which layer, the activation of each MLP and which gates it cuts.
// REQUIRES: read_shape().
// Errors: kBadHyperparameter (a list of the wrong length, numbers out of range), kUnsupported (a kind of layer or an
// activation, named), kMissingKey, kBadType.
Status read_layers(const Hyperparameters& file, const Architecture& row, ModelConfig& config);

}  // namespace ibid
