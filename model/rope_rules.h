// How positions turn queries and keys: RopeRules read from a file's metadata, in every form that both containers have.
#pragma once

#include "base/result.h"
#include "model/architecture.h"
#include "model/config.h"
#include "model/hyperparameters.h"

namespace ibid {

// Sets config.ropes: one rule, or two for RopeLayers::kTwoRules, in whose layers without a window the first holds.
// REQUIRES: the layers' heads and config.trained_context are read.
// Errors: kUnsupported (a rule, named, with the supported ones), kMissingKey, kBadHyperparameter, kBadType, kBadShape,
// kNonFinite.
Status read_ropes(const Hyperparameters& file, const Architecture& row, ModelConfig& config);

}  // namespace ibid
