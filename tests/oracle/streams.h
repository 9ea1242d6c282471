// AltUp (Baykal et al. 2023) as in Gemma 3n: several streams instead of one x; each layer computes one of them.
#pragma once

#include <vector>

#include "tests/oracle/model.h"

namespace ibid::oracle {

using Streams = std::vector<Matrix>;  // [n] of [T, D]

// x and its projections, each scaled to the magnitude of x.
Streams spread(const Model& model, const Matrix& x);
// Predicts the streams after a layer, before it is computed.
Streams predict(const Model& model, size_t layer, const Streams& streams);
// Corrects the prediction; `computed` is the layer's output for the active stream.
Streams correct(const Model& model, size_t layer, const Streams& predicted, const Matrix& computed);
// The mean of all streams, each projected back and scaled to the magnitude of stream 0.
Matrix gather(const Model& model, const Streams& streams);

}  // namespace ibid::oracle
