// The forward pass: forward_pass.cc is the page to check against a paper.
#pragma once

#include "model/forward/pass.h"

namespace ibid::forward {

// Computes these layers, on one of the workers of a parallel region; every worker calls it. The first layers begin
// with the embeddings, the last end with the logits.
void run_layers(const Worker& worker, Pass& pass, Range layers);

// block_out = Wo attend(q, k, v) of a layer, by these weights; q, k and v are complete.
void attend(PassPart& p, size_t layer, const LayerWeights& w);

}  // namespace ibid::forward
