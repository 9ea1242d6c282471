// The forward pass: forward_pass.cc is the page to check against a paper.
#pragma once

#include "model/forward/pass.h"

namespace ibid::forward {

// Computes these layers, on one of the workers of a parallel region; every worker calls it. The first layers begin
// with the embeddings, the last end with the logits.
void run_layers(const Worker& worker, Pass& pass, Range layers);

}  // namespace ibid::forward
