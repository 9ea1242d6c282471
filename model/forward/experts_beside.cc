// Experts beside an MLP: both read x, each through a norm of its own, and so does the router.
//
//   x += norm(norm_1(mlp(norm(x))) + norm_2(experts(norm_3(x)))),   router: x / rms(x) * scale / sqrt(D)
//
// Source: Gemma 4 model overview 2026.
#include <algorithm>
#include <cmath>

#include "model/forward/architecture_steps.h"
#include "model/forward/row_steps.h"

namespace ibid::forward {

// block_out is what the MLP gave.
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
  norm(p, w.moe.norm, {});                                               // h = norm_3(x)          [T, D]
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
