// Experts beside an MLP: both read x, each through a norm of its own, and so does the router.
//
//   x += norm(norm_1(mlp(norm(x))) + norm_2(experts(norm_3(x)))),   router: x / rms(x) * scale / sqrt(D)
//
// Source: Gemma 4 model overview 2026.
#include <algorithm>
#include <cmath>

#include "model/forward/transformer.h"

namespace ibid {

// block_out is what the MLP gave.
void TransformerModel::mix_experts_beside(Part& p, size_t layer) {
  const LayerWeights& w = weights_.layers[layer];
  const size_t n = config_.dim;
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(n)));
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    float* out = p.own.mlp_out.row(i);
    std::copy_n(acts_.block_out.row(i), n, out);
    add_bias(w.b_down, 0, n, out);
    norm_row(out, w.moe.mlp_post_norm, {}, n, out);
    float* routed = p.own.router_h.values + i * p.own.router_h.stride;
    norm_row(p.own.x.row(i), w.moe.router_scale, {}, n, routed);
    kernels_->scale(routed, scale, n);
  }
  quantize(p, p.own.router_h);
  norm(p, w.moe.norm, {});                                               // h = norm_3(x)          [T, D]
  p.meet();
  const MoeStep step{p.worker, linear_, p.own.h, p.own.router_h, p.alone, p.rows, acts_.block_out};
  if (!moe_block(step, config_.moe, w.moe, acts_.moe)) note_lost_router(p, layer);
  p.worker.barrier();
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    float* added = p.own.added.row(i);
    norm_row(acts_.block_out.row(i), w.moe.post_norm, {}, n, added);
    kernels_->add(p.own.mlp_out.row(i), added, n);
  }
  add_residual(p, p.own.mlp_out, {}, w.ffn_post_norm);
}

}  // namespace ibid
