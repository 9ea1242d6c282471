#include "model/forward/architecture_steps.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/layout/pack.h"
#include "model/config/architecture_steps.h"
#include "model/forward/row_steps.h"

namespace ibid::forward {

// --- AltUp: row steps without barriers, except for the products before the first and after the last layer.
// In the formulas x_i is stream i, and x_a the active stream, on which the layer computes.

namespace {

constexpr size_t kLanes = 16;
constexpr double kSmallestSquare = 1e-5;  // lower limit of a mean square that is a divisor

// Sums in 16 lanes of double, so that all instruction sets give the same bits.
double dot(const float* a, const float* b, size_t n) {
  double lanes[kLanes] = {};
  size_t k = 0;
  for (; k + kLanes <= n; k += kLanes) {
    for (size_t i = 0; i < kLanes; ++i) lanes[i] += static_cast<double>(a[k + i]) * static_cast<double>(b[k + i]);
  }
  for (; k < n; ++k) lanes[k % kLanes] += static_cast<double>(a[k]) * static_cast<double>(b[k]);
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

double mean_square(const float* x, size_t n) { return dot(x, x, n) / static_cast<double>(n); }

// Returns the factor that gives y the root mean square of x.
float same_magnitude(const float* x, const float* y, size_t n) {
  return static_cast<float>(std::sqrt(mean_square(x, n)) / std::sqrt(std::max(mean_square(y, n), kSmallestSquare)));
}

// Returns row i, of D floats, of this worker's scratch.
float* scratch_row(const PassPart& p, size_t i) {
  const PassModel& m = p.model;
  return m.acts.scratch.row(static_cast<size_t>(p.worker.index())) + i * m.config.dim;
}

// Computes the coefficients c = tanh(W_router (norm(x) / D)), one for each stream.
void route_streams(const PassPart& p, const AltUpWeights& w, const float* x, float* coefficients) {
  const PassModel& m = p.model;
  const size_t n = m.config.dim;
  float* h = scratch_row(p, 0);
  m.kernels.rms_norm(x, w.router_norm.data(), m.config.norm_eps, n, h);
  m.kernels.scale(h, 1.0f / static_cast<float>(n), n);
  for (size_t s = 0; s < m.config.altup.n_streams; ++s) {
    coefficients[s] = static_cast<float>(dot(w.router.data() + s * n, h, n));
  }
  m.kernels.softcap(coefficients, 1.0f, m.config.altup.n_streams);
}

}  // namespace

// x_0 = x; the other streams are x_i = W_spread,i x, scaled to the magnitude of x.
void spread_streams(PassPart& p) {
  const PassModel& m = p.model;
  const size_t n = m.config.dim;
  norm(p, {}, {});  // h = x                  [T, D]
  p.barrier_if_shared();
  for (size_t s = 0; s < m.config.altup.n_streams; ++s) {
    if (s > 0) {
      linear(p, m.weights.streams[s - 1].spread, p.buffers.h, m.acts.block_out);
      p.worker.barrier();
    }
    for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
      const float* x = p.buffers.x.row(i);
      float* stream = p.buffers.streams.row(i) + s * n;
      std::copy_n(s == 0 ? x : m.acts.block_out.row(i), n, stream);
      if (s > 0) m.kernels.scale(stream, same_magnitude(x, stream, n), n);
    }
    p.worker.barrier();  // all workers have read block_out
  }
}

// Predicts all n streams at once: x_i += sum over j of (W_predict c)[i n + j] x_j, with the coefficients c that
// route_streams() computes from x_a. Then copies x_a to x, the input of the layer.
void predict_streams(PassPart& p, size_t layer) {
  const PassModel& m = p.model;
  const AltUpWeights& w = m.weights.layers[layer].altup;
  const size_t n = m.config.dim, n_streams = m.config.altup.n_streams;
  alignas(64) float c[kRoundedStreams];
  float* product = scratch_row(p, 0);
  float* predicted = scratch_row(p, 1);  // [n_streams, D]
  for (size_t row = p.rows.begin; row < p.rows.end; ++row) {
    float* streams = p.buffers.streams.row(row);
    route_streams(p, w, streams + m.config.altup.active * n, c);
    std::copy_n(streams, n_streams * n, predicted);
    for (size_t i = 0; i < n_streams; ++i) {
      for (size_t j = 0; j < n_streams; ++j) {
        const double share = dot(w.predict.data() + (i * n_streams + j) * n_streams, c, n_streams);
        std::copy_n(streams + j * n, n, product);
        m.kernels.scale(product, static_cast<float>(share), n);
        m.kernels.add(predicted + i * n, product, n);
      }
    }
    std::copy_n(predicted, n_streams * n, streams);
    std::copy_n(streams + m.config.altup.active * n, n, p.buffers.x.row(row));
  }
}

// Corrects every stream by the output x of the layer: x_i += (x - x_a) (1 + (W_correct c)[i]), with the coefficients c
// that route_streams() computes from x. Then x = x_a, multiplied by active_scale if the model has it.
void correct_streams(PassPart& p, size_t layer) {
  const PassModel& m = p.model;
  const AltUpWeights& w = m.weights.layers[layer].altup;
  const size_t n = m.config.dim, n_streams = m.config.altup.n_streams;
  alignas(64) float c[kRoundedStreams];
  float* change = scratch_row(p, 1);
  float* product = scratch_row(p, 2);
  for (size_t row = p.rows.begin; row < p.rows.end; ++row) {
    float* x = p.buffers.x.row(row);
    float* streams = p.buffers.streams.row(row);
    float* active = streams + m.config.altup.active * n;
    route_streams(p, w, x, c);
    std::copy_n(active, n, change);
    m.kernels.scale(change, -1.0f, n);
    m.kernels.add(change, x, n);
    for (size_t i = 0; i < n_streams; ++i) {
      std::copy_n(change, n, product);
      m.kernels.scale(product, static_cast<float>(1.0 + dot(w.correct.data() + i * n_streams, c, n_streams)), n);
      m.kernels.add(streams + i * n, product, n);
    }
    std::copy_n(active, n, x);
    if (!w.active_scale.empty()) m.kernels.multiply(x, w.active_scale.data(), n);
  }
}

// x = mean of x_0 and all W_gather,i x_i, each scaled to the magnitude of x_0.
void gather_streams(PassPart& p) {
  const PassModel& m = p.model;
  const size_t n = m.config.dim, n_streams = m.config.altup.n_streams;
  p.worker.barrier();  // all workers have read block_out
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) std::copy_n(p.buffers.streams.row(i), n, p.buffers.x.row(i));
  for (size_t s = 1; s < n_streams; ++s) {
    for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
      std::copy_n(p.buffers.streams.row(i) + s * n, n, p.buffers.h.values + i * p.buffers.h.stride);
    }
    quantize(p, p.buffers.h);
    p.barrier_if_shared();
    linear(p, m.weights.streams[s - 1].gather, p.buffers.h, m.acts.block_out);
    p.worker.barrier();
    for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
      float* y = scratch_row(p, 0);
      std::copy_n(m.acts.block_out.row(i), n, y);
      m.kernels.scale(y, same_magnitude(p.buffers.streams.row(i), y, n), n);
      m.kernels.add(p.buffers.x.row(i), y, n);
    }
    p.worker.barrier();
  }
  scale_rows(p, 1.0f / static_cast<float>(n_streams));
}

// --- LAuReL, learned augmented residual layer: a low-rank bypass of attention.
//   x = (x + attention + h + norm(W_right (W_left h))) / sqrt(2),   h: the input of attention
// Source: Menghani et al. 2024.

// Computed at the same time as attention. REQUIRES: all workers have written h. The caller runs a barrier after the
// call.
void project_laurel(PassPart& p, size_t layer) {
  const PassModel& m = p.model;
  const LayerWeights& w = m.weights.layers[layer];
  linear(p, w.laurel_left, p.buffers.h, m.acts.laurel_low);  // [T, R]
  p.worker.barrier();
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    std::copy_n(m.acts.laurel_low.row(i), m.config.laurel_rank, p.buffers.laurel.values + i * p.buffers.laurel.stride);
  }
  quantize(p, p.buffers.laurel);
  p.barrier_if_shared();
  linear(p, w.laurel_right, p.buffers.laurel, m.acts.laurel);  // [T, D]
}

void add_laurel(PassPart& p, size_t layer) {
  const PassModel& m = p.model;
  const size_t n = m.config.dim;
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    float* added = p.buffers.added.row(i);
    norm_row(m, m.acts.laurel.row(i), m.weights.layers[layer].laurel_norm, {}, n, added);
    m.kernels.add(added, p.buffers.h.values + i * p.buffers.h.stride, n);
    m.kernels.add(p.buffers.x.row(i), added, n);
  }
  scale_rows(p, static_cast<float>(1.0 / std::numbers::sqrt2));
}

// --- LayerInputs: per-layer embeddings.

// i = (E_layers[token] sqrt(P) + norm(W_layers x / sqrt(D))) / sqrt(2), for all layers.
void make_layer_inputs(PassPart& p) {
  const PassModel& m = p.model;
  const size_t n = m.config.layer_inputs.dim, all = m.config.n_layers * n;
  norm(p, {}, {});  // h = x                  [T, D]
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

// x += norm(W_out (f(W_gate x) * i_layer)). With AltUp the norm is added to all streams except the first.
void add_layer_input(PassPart& p, size_t layer) {
  const PassModel& m = p.model;
  const LayerInputWeights& w = m.weights.layers[layer].input;
  const size_t n = m.config.layer_inputs.dim, dim = m.config.dim;
  norm(p, {}, {});  // h = x                  [T, D]
  p.barrier_if_shared();
  linear(p, w.gate, p.buffers.h, m.acts.layer_gate);  // [T, P]
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

// --- Experts beside an MLP: MLP, experts and router read x, each through its own norm.
//   x += norm(norm_1(mlp(norm(x))) + norm_2(experts(norm_3(x)))),   router: x / rms(x) * scale / sqrt(D)
// Source: Gemma 4 model overview 2026.

// Adds the experts' output to that of the MLP, then both to x. REQUIRES: block_out is the output of the MLP.
void mix_experts_beside(PassPart& p, size_t layer) {
  const PassModel& m = p.model;
  const LayerWeights& w = m.weights.layers[layer];
  const size_t n = m.config.dim;
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(n)));
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    float* out = p.buffers.mlp_out.row(i);
    std::copy_n(m.acts.block_out.row(i), n, out);
    add_bias(m, w.b_down, 0, n, out);
    norm_row(m, out, w.moe.mlp_post_norm, {}, n, out);
    float* routed = p.buffers.router_h.values + i * p.buffers.router_h.stride;
    norm_row(m, p.buffers.x.row(i), w.moe.router_scale, {}, n, routed);
    m.kernels.scale(routed, scale, n);
  }
  quantize(p, p.buffers.router_h);
  norm(p, w.moe.norm, {});  // h = norm_3(x)          [T, D]
  p.barrier_if_shared();
  const MoeStep step{p.worker, m.linear, p.buffers.h, p.buffers.router_h, p.computes_all, p.rows, m.acts.block_out};
  if (!moe_block(step, m.config.moe, w.moe, m.acts.moe)) note_lost_router(p, layer);
  p.worker.barrier();
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    float* added = p.buffers.added.row(i);
    norm_row(m, m.acts.block_out.row(i), w.moe.post_norm, {}, n, added);
    m.kernels.add(p.buffers.mlp_out.row(i), added, n);
  }
  add_residual(p, p.buffers.mlp_out, {}, w.ffn_post_norm);
}

}  // namespace ibid::forward
