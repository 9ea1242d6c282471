#include "model/forward/row_steps.h"

#include <algorithm>
#include <cmath>

#include "model/weights/finite_check.h"

namespace ibid::forward {

// h = norm(x), or x if the layer has no norm before the block.
void norm(PassPart& p, WeightVector weight, WeightVector bias) {
  const PassModel& m = p.model;
  LinearInput& h = p.buffers.h;
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    float* row = h.values + i * h.stride;
    if (weight.empty()) {
      std::copy_n(p.buffers.x.row(i), m.config.dim, row);
    } else {
      norm_row(m, p.buffers.x.row(i), weight, bias, m.config.dim, row);
    }
  }
  quantize(p, h);
}

void norm_row(const PassModel& m, const float* x, WeightVector weight, WeightVector bias, size_t n, float* y) {
  if (m.config.norm == NormKind::kRms) {
    m.kernels.rms_norm(x, weight.data(), m.config.norm_eps, n, y);
  } else {
    m.kernels.layer_norm(x, weight.data(), bias.empty() ? nullptr : bias.data(), m.config.norm_eps, n, y);
  }
}

void quantize(const PassPart& p, LinearInput& input) {
  const PassModel& m = p.model;
  if (input.quantized.q == nullptr) return;
  const Range all{0, input.quantized.blocks()};
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    m.kernels.quantize_blocks(input.values + i * input.stride, i, all, input.quantized);
  }
}

// Norms each row over all its heads together. Workers share the rows.
void norm_whole(const PassPart& p, Rows rows, WeightVector bias, WeightVector weight) {
  const PassModel& m = p.model;
  const Range own = p.worker.share(p.pass.n_rows());
  for (size_t i = own.begin; i < own.end; ++i) {
    add_bias(m, bias, 0, weight.size(), rows.row(i));
    norm_row(m, rows.row(i), weight, {}, weight.size(), rows.row(i));
  }
}

// Workers share heads, even in small passes, because `attended` is a shared buffer.
void gate_attended(const PassPart& p, size_t layer) {
  const PassModel& m = p.model;
  const size_t d = m.config.layers[layer].head_dim;
  const WeightVector b_gate = m.weights.layers[layer].b_attn_gate;
  const Range items = p.worker.share(p.pass.n_rows() * m.config.n_heads);
  for (size_t item = items.begin; item < items.end; ++item) {
    const size_t row = item / m.config.n_heads, first = item % m.config.n_heads * d;
    add_bias(m, b_gate, first, d, m.acts.attn_gate.row(row));
    float* gate = m.acts.attn_gate.row(row) + first;
    m.kernels.activate({Activation::Kind::kSigmoid}, gate, d, gate);
    m.kernels.multiply(m.acts.attended.row(row) + first, gate, d);
  }
  p.worker.barrier();
}

// gate = max(gate - cutoff, 0), cutoff = mean + gate_cutoff standard deviations of the row. Workers share the rows.
void cut_gates(const PassPart& p, size_t layer) {
  const PassModel& m = p.model;
  const size_t n = m.config.layers[layer].ffn_dim;
  p.worker.barrier();
  const Range own = p.worker.share(p.pass.n_rows());
  for (size_t i = own.begin; i < own.end; ++i) {
    float* gate = m.acts.gate.row(i);
    double sum = 0, squares = 0;
    for (size_t k = 0; k < n; ++k) sum += static_cast<double>(gate[k]);
    const double mean = sum / static_cast<double>(n);
    for (size_t k = 0; k < n; ++k) {
      const double apart = static_cast<double>(gate[k]) - mean;
      squares += apart * apart;
    }
    const double deviation = std::sqrt(squares / static_cast<double>(n));
    const auto cutoff = static_cast<float>(mean + deviation * static_cast<double>(*m.config.layers[layer].gate_cutoff));
    for (size_t k = 0; k < n; ++k) gate[k] = std::max(gate[k] - cutoff, 0.0f);
  }
  p.worker.barrier();
}

void gate(const PassPart& p, size_t layer, const GatePart& part, LinearInput& gated) {
  const PassModel& m = p.model;
  const LayerWeights& w = m.weights.layers[layer];
  const Activation& f = m.config.layers[layer].activation;
  const size_t first = part.panels.begin * kPanelRows;
  const size_t n = std::min(part.panels.end * kPanelRows, w.w_up.n_rows) - first;
  // The worker with the last columns also quantises the padding.
  const bool last = part.panels.end == w.w_up.n_panels();
  const Range blocks{first / kQuantBlock, last ? gated.quantized.blocks() : (first + n) / kQuantBlock};
  const bool quantized = !panel_is_float(w.w_down.type);
  for (size_t i = part.rows.begin; i < part.rows.end; ++i) {
    float* up = part.up.row(i - part.rows.begin);
    float* values = quantized ? up : gated.values + i * gated.stride + first;
    add_bias(m, w.b_up, first, n, up - first);
    if (m.config.gated) {
      float* gate = part.gate.row(i - part.rows.begin);
      add_bias(m, w.b_gate, first, n, gate - first);
      if (m.config.gate_scale != 1) m.kernels.scale(gate, m.config.gate_scale, n);
      activate_and_multiply(m, f, gate, up, n, values);
    } else {
      m.kernels.activate(f, up, n, values);
    }
    if (quantized) m.kernels.quantize_blocks(values - first, i, blocks, gated.quantized);
  }
}

void activate_and_multiply(const PassModel& m, const Activation& f, const float* gate, const float* up, size_t n,
                           float* y) {
  if (f.kind == Activation::Kind::kSilu) return m.kernels.silu_mul(gate, up, n, y);
  m.kernels.activate(f, gate, n, y);
  m.kernels.multiply(y, up, n);
}

// x[first, first + n) += bias; no effect if the bias is empty.
void add_bias(const PassModel& m, WeightVector bias, size_t first, size_t n, float* x) {
  if (!bias.empty()) m.kernels.add(x + first, bias.data() + first, n);
}

// x = kept x + norm(from + bias) factor
void add_residual(const PassPart& p, Rows from, WeightVector bias, WeightVector post_norm, const Residual& rule) {
  const PassModel& m = p.model;
  const size_t n = m.config.dim;
  const float factor = m.config.residual_scale * rule.factor;
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    float* x = p.buffers.x.row(i);
    if (!m.config.changes_residuals()) {
      m.kernels.add(x, from.row(i), n);
      add_bias(m, bias, 0, n, x);
      continue;
    }
    float* added = p.buffers.added.row(i);
    std::copy_n(from.row(i), n, added);
    add_bias(m, bias, 0, n, added);
    if (!post_norm.empty()) norm_row(m, added, post_norm, {}, n, added);
    if (factor != 1) m.kernels.scale(added, factor, n);
    if (rule.of_norm) std::copy_n(p.buffers.h.values + i * p.buffers.h.stride, n, x);
    if (rule.kept != 1) m.kernels.scale(x, rule.kept, n);
    m.kernels.add(x, added, n);
  }
}

void scale_rows(const PassPart& p, float factor) {
  const PassModel& m = p.model;
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) m.kernels.scale(p.buffers.x.row(i), factor, m.config.dim);
}

// Applies bias, scale and soft cap. Workers share columns, because few rows want logits.
void finish_logits(const PassPart& p) {
  const PassModel& m = p.model;
  p.worker.barrier();
  const Range columns = p.worker.share(m.config.vocab_size, kPanelRows);
  for (size_t i = 0; i < p.pass.logit_rows.size(); ++i) {
    float* logits = p.pass.logits.row(i) + columns.begin;
    add_bias(m, m.weights.lm_head_bias, columns.begin, columns.size(), p.pass.logits.row(i));
    if (m.config.logit_scale != 1) m.kernels.scale(logits, m.config.logit_scale, columns.size());
    if (m.config.logit_softcap != 0) m.kernels.softcap(logits, m.config.logit_softcap, columns.size());
  }
}

// Records this layer as the one whose router logits are not finite, unless a layer is recorded already. Several workers
// may call this function at once.
void note_lost_router(const PassPart& p, size_t layer) {
  size_t none = Pass::kNoLayer;
  p.pass.nonfinite_router_layer.compare_exchange_strong(none, layer);
}

// Checks x, because a value that is not finite stays in x through all later layers. Checking logits would not suffice:
// int8 inputs of later layers hide such a value, and rows without logits are committed to the cache too.
void check_rows_finite(const PassPart& p, size_t layer) {
  const PassModel& m = p.model;
  if (p.computes_all && p.worker.index() != 0) return;
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    if (all_finite({p.buffers.x.row(i), m.config.dim})) continue;
    size_t none = Pass::kNoLayer;
    p.pass.nonfinite_layer.compare_exchange_strong(none, layer);
    return;
  }
}

// Only worker 0 checks. All workers read the result after the barriers of the layer's attention.
void check_cancelled(const PassPart& p, size_t layer) {
  if (p.worker.index() != 0) return;
  if (p.pass.observer) p.pass.observer(layer);
  if (p.pass.stop.stop_requested()) p.pass.stopped_layer = layer;
}

}  // namespace ibid::forward
