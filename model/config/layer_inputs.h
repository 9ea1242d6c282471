// LayerInputs: per-layer embeddings, as data. A token gives each layer l a short row i_l, made once for all layers:
//
//   i = (E_layers[token] sqrt(P) + norm(W_layers x / sqrt(D))) / sqrt(2),   x: the scaled embedding, norm: over P
//
// and after its MLP the layer adds the part of it that its x lets through: x += norm(W_layer_out (f(W_layer_gate x)
// * i_l))
// Source: Gemma 3n model overview 2025.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/layout/panel.h"

namespace ibid {

struct LayerInputs {
  size_t dim = 0;         // P; 0: the model has none
  size_t vocab_size = 0;  // rows of E_layers; ids behind them count as 0

  bool used() const { return dim != 0; }
};

// The weights of a layer.
struct LayerInputWeights {
  PackedMatrix gate;                   // [P, D]
  PackedMatrix out;                    // [D, P]
  std::span<const float> post_norm;    // [D]
};

}  // namespace ibid
