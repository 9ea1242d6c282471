// Per-layer embeddings in the forward pass: see layer_inputs.h.
#include "model/forward/layer_inputs.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/linear/pack.h"
#include "model/forward/transformer.h"

namespace ibid {

// i = (E_layers[token] sqrt(P) + norm(W_layers x / sqrt(D))) / sqrt(2), of all layers.
void TransformerModel::make_layer_inputs(Part& p) {
  const size_t n = config_.layer_inputs.dim, all = config_.n_layers * n;
  norm(p, {}, {});                                                       // h = x                  [T, D]
  p.meet();
  linear(p.worker, linear_, weights_.layer_inputs, p.own.h, acts_.layer_inputs.data, acts_.layer_inputs.stride);
  p.worker.barrier();
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.dim)));
  const auto embed_scale = static_cast<float>(std::sqrt(static_cast<double>(n)));
  const Range own = p.worker.share(p.pass.n_rows());
  float* embedding = acts_.scratch.row(static_cast<size_t>(p.worker.index()));  // [L P]
  for (size_t i = own.begin; i < own.end; ++i) {
    const auto id = static_cast<size_t>(p.pass.tokens[i]);
    unpack_row(weights_.layer_embed, id < config_.layer_inputs.vocab_size ? id : 0, embedding);
    kernels_->scale(embedding, embed_scale, all);
    float* inputs = acts_.layer_inputs.row(i);
    kernels_->scale(inputs, scale, all);
    for (size_t l = 0; l < config_.n_layers; ++l) {
      norm_row(inputs + l * n, weights_.layer_input_norm, {}, n, inputs + l * n);
    }
    kernels_->add(inputs, embedding, all);
    kernels_->scale(inputs, static_cast<float>(1.0 / std::numbers::sqrt2), all);
  }
  p.worker.barrier();
}

// x += norm(W_out (f(W_gate x) * i_layer)); where there are streams, all but the first get it.
void TransformerModel::add_layer_input(Part& p, size_t layer) {
  const LayerInputWeights& w = weights_.layers[layer].input;
  const size_t n = config_.layer_inputs.dim, dim = config_.dim;
  norm(p, {}, {});                                                       // h = x                  [T, D]
  p.meet();
  linear(p.worker, linear_, w.gate, p.own.h, acts_.layer_gate.data, acts_.layer_gate.stride);      // [T, P]
  p.worker.barrier();
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    float* gated = p.own.layer_gated.values + i * p.own.layer_gated.stride;
    activate_and_multiply(config_.layers[layer].activation, acts_.layer_gate.row(i),
                          acts_.layer_inputs.row(i) + layer * n, n, gated);
  }
  quantize(p, p.own.layer_gated);
  p.meet();
  linear(p.worker, linear_, w.out, p.own.layer_gated, acts_.block_out.data, acts_.block_out.stride);
  p.worker.barrier();
  if (!config_.altup.used()) return add_residual(p, acts_.block_out, {}, w.post_norm);
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    float* added = p.own.added.row(i);
    norm_row(acts_.block_out.row(i), w.post_norm, {}, dim, added);
    for (size_t s = 1; s < config_.altup.n_streams; ++s) kernels_->add(p.own.streams.row(i) + s * dim, added, dim);
  }
}

}  // namespace ibid
