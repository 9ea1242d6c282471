// LAuReL, learned augmented residual layer, in the forward pass: a low-rank way around attention.
//
//   x = (x + attention + h + norm(W_right (W_left h))) / sqrt(2),   h: what attention reads
//
// Source: Menghani et al. 2024.
#include <algorithm>
#include <numbers>

#include "model/forward/architecture_steps.h"
#include "model/forward/row_steps.h"

namespace ibid::forward {

// Beside attention; h is complete. The caller puts a barrier behind it.
void project_laurel(PassPart& p, size_t layer) {
  const PassModel& m = p.model;
  const LayerWeights& w = m.weights.layers[layer];
  linear(p, w.laurel_left, p.buffers.h, m.acts.laurel_low);       // [T, R]
  p.worker.barrier();
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    std::copy_n(m.acts.laurel_low.row(i), m.config.laurel_rank, p.buffers.laurel.values + i * p.buffers.laurel.stride);
  }
  quantize(p, p.buffers.laurel);
  p.barrier_if_shared();
  linear(p, w.laurel_right, p.buffers.laurel, m.acts.laurel);         // [T, D]
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

}  // namespace ibid::forward
