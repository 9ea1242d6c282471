// AltUp (Baykal et al. 2023), as Gemma 3n has it: several streams in place of one x, of which each layer computes
// with one.
#pragma once

#include <vector>

#include "tests/oracle/model.h"

namespace ibid::oracle {

using Streams = std::vector<Matrix>;   // [n] of [T, D]

// x and what the model makes of it, each as large as x.
Streams spread(const Model& model, const Matrix& x);
// What the streams will be behind a layer, before it is computed.
Streams predict(const Model& model, size_t layer, const Streams& streams);
// What they are, now that the active one has become `computed`.
Streams correct(const Model& model, size_t layer, const Streams& predicted, const Matrix& computed);
// The mean of all streams, each turned back and as large as stream 0.
Matrix gather(const Model& model, const Streams& streams);

}  // namespace ibid::oracle
