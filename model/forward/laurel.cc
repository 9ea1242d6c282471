// LAuReL, learned augmented residual layer, in the forward pass: a low-rank way around attention.
//
//   x = (x + attention + h + norm(W_right (W_left h))) / sqrt(2),   h: what attention reads
//
// Source: Menghani et al. 2024.
#include <algorithm>
#include <numbers>

#include "model/forward/transformer.h"

namespace ibid {

// Beside attention; h is complete. The caller puts a barrier behind it.
void TransformerModel::project_laurel(Part& p, size_t layer) {
  const LayerWeights& w = weights_.layers[layer];
  linear(p.worker, linear_, w.laurel_left, p.own.h, acts_.laurel_low.data, acts_.laurel_low.stride);       // [T, R]
  p.worker.barrier();
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    std::copy_n(acts_.laurel_low.row(i), config_.laurel_rank, p.own.laurel.values + i * p.own.laurel.stride);
  }
  quantize(p, p.own.laurel);
  p.meet();
  linear(p.worker, linear_, w.laurel_right, p.own.laurel, acts_.laurel.data, acts_.laurel.stride);         // [T, D]
}

void TransformerModel::add_laurel(Part& p, size_t layer) {
  const size_t n = config_.dim;
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    float* added = p.own.added.row(i);
    norm_row(acts_.laurel.row(i), weights_.layers[layer].laurel_norm, {}, n, added);
    kernels_->add(added, p.own.h.values + i * p.own.h.stride, n);
    kernels_->add(p.own.x.row(i), added, n);
  }
  scale_rows(p, static_cast<float>(1.0 / std::numbers::sqrt2));
}

}  // namespace ibid
