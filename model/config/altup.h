// AltUp: alternating updates, as data. A model has several streams x_0 .. x_{n-1} in place of one x. A layer
// computes with one of them, the active one a. What the layer does to the others is predicted before it and
// corrected after it:
//
//   c = tanh(W_router (norm(x_a) / D)),  p_i = x_i + sum over j of (W_predict c)[i n + j] x_j
//   y = layer(p_a),  c' = tanh(W_router (norm(y) / D)),  x_i = p_i + (y - p_a) (1 + (W_correct c')[i])
//
// Before the first layer x_i is W_spread,i x. After the last layer x is the mean of x_0 and all W_gather,i x_i.
// Each product is scaled to the magnitude of stream 0.
// Source: Baykal et al. 2023.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/layout/panel.h"

namespace ibid {

inline constexpr size_t kMaxStreams = 8;
inline constexpr size_t kRoundedStreams = 16;  // up to a whole vector

struct AltUp {
  size_t n_streams = 0;        // n; 0: the model has one x
  size_t active = 0;           // a
  bool scales_active = false;  // layer inputs are made of x_a times a learned vector

  bool used() const { return n_streams != 0; }
};

// The weights of each stream but stream 0.
struct StreamWeights {
  PackedMatrix spread;                  // [D, D]
  PackedMatrix gather;                  // [D, D]
};

// The weights of a layer: few numbers, kept as floats.
struct AltUpWeights {
  std::span<const float> router;        // [n, D]
  std::span<const float> router_norm;   // [D]
  std::span<const float> predict;       // [n n, n]
  std::span<const float> correct;       // [n, n]
  std::span<const float> active_scale;  // [D]
};

}  // namespace ibid
