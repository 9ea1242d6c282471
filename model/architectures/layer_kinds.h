// Reads from a file's metadata which layers are recurrent, which attend, and which use a block in common. A part of
// read_config().
#pragma once

#include "model/architectures/architecture.h"
#include "model/architectures/hyperparameters.h"

namespace ibid {

// Which layers attend, recur, do both, or neither, in every form that files have: a list of kinds, letters, indices,
// periods; in GGUF heads of keys and values by layer, or a period. A family without recurrent layers: all attend.
// REQUIRES: config.layers have their number. Errors: those of Hyperparameters; kUnsupported (a kind of layer, named).
Status read_layer_kinds(const Hyperparameters& file, const Architecture& row, ModelConfig& config);

}  // namespace ibid
