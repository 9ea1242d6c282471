// Reads from a file's metadata what the recurrent layers of a model are. A part of read_config().
#pragma once

#include "model/architectures/architecture.h"
#include "model/architectures/hyperparameters.h"

namespace ibid {

// Heads, widths, ranks and factors of the recurrent layers. REQUIRES: the heads of attention and norm_eps are read.
// Errors: likewise.
Status read_recurrent(const Hyperparameters& file, const Architecture& row, ModelConfig& config);

}  // namespace ibid
