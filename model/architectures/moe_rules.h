// Reads from a file's metadata which layers have experts, how many, and how rows choose among them.
#pragma once

#include "base/result.h"
#include "model/architectures/architecture.h"
#include "model/architectures/hyperparameters.h"
#include "model/config/config.h"

namespace ibid {

// Sets config.moe where the file counts experts, and LayerConfig::ffn_dim to 0 of the layers that have them.
// REQUIRES: config.layers are read.
// Errors: kBadHyperparameter (more experts in use than there are, groups that do not divide them, layers beyond the
// model ...), kMissingKey, kBadType, kUnsupported (a way to choose experts, named).
Status read_moe(const Hyperparameters& file, const Architecture& row, ModelConfig& config);

// The number that GGUF gives to a way to choose experts.
size_t gguf_number_of(RouterScores scores);

}  // namespace ibid
