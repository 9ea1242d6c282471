// What `ibid inspect` says of a model's recurrent layers: their kind, their heads, and what a sequence's state costs.
#pragma once

#include "apps/inspect/fact.h"
#include "model/config/config.h"

namespace ibid {

// REQUIRES: some layer is recurrent.
Fact recurrent_fact(const ModelConfig& config);

}  // namespace ibid
