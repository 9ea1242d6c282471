// Reads latent attention (model/config/latent_attention.h) from a file's metadata.
#pragma once

#include "base/result.h"
#include "model/architectures/hyperparameters.h"
#include "model/config/config.h"

namespace ibid {

// Sets config.latent.
// REQUIRES: config.n_heads is read. Errors: kMissingKey, kBadHyperparameter, kBadType.
Status read_latent(const Hyperparameters& file, ModelConfig& config);

// Returns the further factor of the scores of a model whose context was stretched; 1 for others.
// REQUIRES: config.ropes are read. Errors: kBadHyperparameter, kBadType.
Result<double> read_latent_scale(const Hyperparameters& file, const ModelConfig& config);

}  // namespace ibid
