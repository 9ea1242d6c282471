// The shared blocks of several layers in the forward pass: see CommonBlocks in model/config/architecture_steps.h.
#include "model/config/architecture_steps.h"

#include <algorithm>

#include "model/forward/architecture_steps.h"
#include "model/forward/pass.h"
#include "model/forward/row_steps.h"

namespace ibid::forward {

namespace {

// y += A B x
void add_adapted(PassPart& p, const PackedMatrix& low, const PackedMatrix& high, const LinearInput& x, Rows y) {
  const PassModel& m = p.model;
  project_low(p, low, x, p.buffers.recurrent_low);
  linear(p, high, p.buffers.recurrent_low, m.acts.adapted_gate);
  p.worker.barrier();
  const Range own = p.worker.share(p.pass.n_rows());
  for (size_t i = own.begin; i < own.end; ++i) m.kernels.add(y.row(i), m.acts.adapted_gate.row(i), high.n_rows);
}

// block_out = W_o attend(norm(x | e))
void attend_wide(PassPart& p, size_t layer) {
  const PassModel& m = p.model;
  const LayerWeights& w = m.weights.layers[m.config.layers[layer].common_layer];
  const size_t n = m.config.dim;
  LinearInput& wide = p.buffers.wide;
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    float* row = wide.values + i * wide.stride;
    std::copy_n(p.buffers.x.row(i), n, row);
    std::copy_n(p.buffers.embedded.row(i), n, row + n);
    norm_row(m, row, w.common.norm, {}, 2 * n, row);
  }
  quantize(p, wide);
  p.barrier_if_shared();
  linear(p, w.wq, wide, m.acts.q);
  linear(p, w.wk, wide, m.acts.k);
  linear(p, w.wv, wide, m.acts.v);
  if (m.config.common.adapts_attention) {
    const AdapterWeights& adapter = w.common.adapters[m.config.layers[layer].adapter];
    add_adapted(p, adapter.q_low, adapter.q, wide, m.acts.q);
    add_adapted(p, adapter.k_low, adapter.k, wide, m.acts.k);
    add_adapted(p, adapter.v_low, adapter.v, wide, m.acts.v);
  }
  p.worker.barrier();
  rotate_queries(p, layer);
  store_keys_and_values(p, layer);
  p.worker.barrier();
  attend(p, layer, w);
}

// h = norm(block_out). Then computes gate and up from h, and the low-rank parts of both in adapted_gate and adapted_up.
void read_adapter(PassPart& p, const CommonBlockWeights& w, const AdapterWeights& adapter) {
  const PassModel& m = p.model;
  const Activations& a = m.acts;
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    norm_row(m, a.block_out.row(i), w.ffn_norm, {}, m.config.dim, p.buffers.h.values + i * p.buffers.h.stride);
  }
  quantize(p, p.buffers.h);
  p.barrier_if_shared();
  linear(p, adapter.low, p.buffers.h, a.recurrent.low);  // [T, R]
  linear(p, w.w_gate, p.buffers.h, a.gate);              // [T, F]
  linear(p, w.w_up, p.buffers.h, a.up);
  p.worker.barrier();
  LinearInput& low = p.buffers.recurrent_low;
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    std::copy_n(a.recurrent.low.row(i), low.n_cols, low.values + i * low.stride);
  }
  quantize(p, low);
  p.barrier_if_shared();
  linear(p, adapter.gate, low, a.adapted_gate);
  linear(p, adapter.up, low, a.adapted_up);
  p.worker.barrier();
}

// block_out = W_down gated
void mlp_with_adapter(PassPart& p, size_t layer) {
  const PassModel& m = p.model;
  const Activations& a = m.acts;
  const LayerConfig& of_layer = m.config.layers[layer];
  const CommonBlockWeights& w = m.weights.layers[of_layer.common_layer].common;
  read_adapter(p, w, w.adapters[of_layer.adapter]);
  const size_t n = m.config.common.ffn_dim;
  LinearInput gated = of_width(p.pass.gated, n);
  const Range own = p.worker.share(p.pass.n_rows());
  for (size_t i = own.begin; i < own.end; ++i) {
    add_bias(m, w.b_gate, 0, n, a.gate.row(i));
    add_bias(m, w.b_up, 0, n, a.up.row(i));
    m.kernels.add(a.gate.row(i), a.adapted_gate.row(i), n);
    m.kernels.add(a.up.row(i), a.adapted_up.row(i), n);
    float* values = gated.values + i * gated.stride;
    activate_and_multiply(m, of_layer.activation, a.gate.row(i), a.up.row(i), n, values);
    if (gated.quantized.q != nullptr) {
      m.kernels.quantize_blocks(values, i, {0, gated.quantized.blocks()}, gated.quantized);
    }
  }
  p.worker.barrier();
  linear(p, w.w_down, gated, a.block_out);
  p.worker.barrier();
}

}  // namespace

void common_block(PassPart& p, size_t layer) {
  const PassModel& m = p.model;
  const size_t n = m.config.dim;
  LinearInput& h = p.buffers.h;
  attend_wide(p, layer);
  mlp_with_adapter(p, layer);
  const WeightVector b_down = m.weights.layers[m.config.layers[layer].common_layer].common.b_down;
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    float* row = h.values + i * h.stride;
    std::copy_n(m.acts.block_out.row(i), n, row);
    add_bias(m, b_down, 0, n, row);
  }
  quantize(p, h);
  p.worker.barrier();  // all workers have read block_out
  linear(p, m.weights.layers[layer].common.out, h, m.acts.block_out);
  p.worker.barrier();
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    float* row = h.values + i * h.stride;
    std::copy_n(p.buffers.x.row(i), n, row);
    m.kernels.add(row, m.acts.block_out.row(i), n);
    norm_row(m, row, m.weights.layers[layer].attn_norm, {}, n, row);
  }
  quantize(p, h);
  p.barrier_if_shared();
}

}  // namespace ibid::forward
