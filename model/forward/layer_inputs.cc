// Per-layer embeddings in the forward pass: see layer_inputs.h.
#include "model/config/layer_inputs.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/layout/pack.h"
#include "model/forward/architecture_steps.h"
#include "model/forward/row_steps.h"

namespace ibid::forward {

// i = (E_layers[token] sqrt(P) + norm(W_layers x / sqrt(D))) / sqrt(2), of all layers.
void make_layer_inputs(PassPart& p) {
  const PassModel& m = p.model;
  const size_t n = m.config.layer_inputs.dim, all = m.config.n_layers * n;
  norm(p, {}, {});                                                       // h = x                  [T, D]
  p.barrier_if_shared();
  linear(p, m.weights.layer_inputs, p.buffers.h, m.acts.layer_inputs);
  p.worker.barrier();
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(m.config.dim)));
  const auto embed_scale = static_cast<float>(std::sqrt(static_cast<double>(n)));
  const Range own = p.worker.share(p.pass.n_rows());
  float* embedding = m.acts.scratch.row(static_cast<size_t>(p.worker.index()));  // [L P]
  for (size_t i = own.begin; i < own.end; ++i) {
    const auto id = static_cast<size_t>(p.pass.tokens[i]);
    unpack_row(m.weights.layer_embed, id < m.config.layer_inputs.vocab_size ? id : 0, embedding);
    m.kernels.scale(embedding, embed_scale, all);
    float* inputs = m.acts.layer_inputs.row(i);
    m.kernels.scale(inputs, scale, all);
    for (size_t l = 0; l < m.config.n_layers; ++l) {
      norm_row(m, inputs + l * n, m.weights.layer_input_norm, {}, n, inputs + l * n);
    }
    m.kernels.add(inputs, embedding, all);
    m.kernels.scale(inputs, static_cast<float>(1.0 / std::numbers::sqrt2), all);
  }
  p.worker.barrier();
}

// x += norm(W_out (f(W_gate x) * i_layer)); where there are streams, all but the first get it.
void add_layer_input(PassPart& p, size_t layer) {
  const PassModel& m = p.model;
  const LayerInputWeights& w = m.weights.layers[layer].input;
  const size_t n = m.config.layer_inputs.dim, dim = m.config.dim;
  norm(p, {}, {});                                                       // h = x                  [T, D]
  p.barrier_if_shared();
  linear(p, w.gate, p.buffers.h, m.acts.layer_gate);      // [T, P]
  p.worker.barrier();
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    float* gated = p.buffers.layer_gated.values + i * p.buffers.layer_gated.stride;
    activate_and_multiply(m, m.config.layers[layer].activation, m.acts.layer_gate.row(i),
                          m.acts.layer_inputs.row(i) + layer * n, n, gated);
  }
  quantize(p, p.buffers.layer_gated);
  p.barrier_if_shared();
  linear(p, w.out, p.buffers.layer_gated, m.acts.block_out);
  p.worker.barrier();
  if (!m.config.altup.used()) return add_residual(p, m.acts.block_out, {}, w.post_norm);
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    float* added = p.buffers.added.row(i);
    norm_row(m, m.acts.block_out.row(i), w.post_norm, {}, dim, added);
    for (size_t s = 1; s < m.config.altup.n_streams; ++s) m.kernels.add(p.buffers.streams.row(i) + s * dim, added, dim);
  }
}

}  // namespace ibid::forward
