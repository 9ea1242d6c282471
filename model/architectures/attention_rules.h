// Reads how a layer's scores are made from a file's metadata. A part of read_config().
#pragma once

#include "base/result.h"
#include "model/architectures/architecture.h"
#include "model/architectures/hyperparameters.h"
#include "model/config/config.h"

namespace ibid {

// The soft cap at `key`; `usual` where the file does not say. A null in config.json turns the cap off: 0.
Result<double> read_softcap(const Hyperparameters& file, const Key& key, float usual);

// Sets the scale of scores, their cap, and how queries grow with their position. REQUIRES: heads and ropes are read.
// Errors: kBadHyperparameter, kBadType.
Status read_attention(const Hyperparameters& file, const Architecture& row, ModelConfig& config);

}  // namespace ibid
