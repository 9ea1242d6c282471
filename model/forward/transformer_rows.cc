// Who computes which rows, heads and columns of a forward pass.
//
// Steps on rows compute the worker's own rows (Part::rows): consecutive ones need no barrier, and in a small pass,
// where every worker has all rows to itself, neither do the linear layers that read them. There every worker reads what
// the pass has in common and writes what is its own: nothing in common is changed in place.
#include <algorithm>
#include <cmath>

#include "kernels/linear/pack.h"
#include "model/forward/transformer.h"
#include "model/weights/finite_values.h"

namespace ibid {

// h = norm(x), or x itself where the layer has no norm in front.
void TransformerModel::norm(Part& p, WeightVector weight, WeightVector bias) {
  LinearInput& h = p.own.h;
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    float* row = h.values + i * h.stride;
    if (weight.empty()) {
      std::copy_n(p.own.x.row(i), config_.dim, row);
    } else {
      norm_row(p.own.x.row(i), weight, bias, config_.dim, row);
    }
  }
  quantize(p, h);
}

void TransformerModel::norm_row(const float* x, WeightVector weight, WeightVector bias, size_t n, float* y) const {
  if (config_.norm == NormKind::kRms) {
    kernels_->rms_norm(x, weight.data(), config_.norm_eps, n, y);
  } else {
    kernels_->layer_norm(x, weight.data(), bias.empty() ? nullptr : bias.data(), config_.norm_eps, n, y);
  }
}

void TransformerModel::quantize(const Part& p, LinearInput& input) {
  if (input.quantized.q == nullptr) return;
  const Range all{0, input.quantized.blocks()};
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    kernels_->quantize_blocks(input.values + i * input.stride, i, all, input.quantized);
  }
}

// A norm over all heads of a row: rows are shared.
void TransformerModel::norm_whole(const Part& p, Rows rows, WeightVector bias, WeightVector weight) {
  const Range own = p.worker.share(p.pass.n_rows());
  for (size_t i = own.begin; i < own.end; ++i) {
    add_bias(bias, 0, weight.size(), rows.row(i));
    norm_row(rows.row(i), weight, {}, weight.size(), rows.row(i));
  }
}

// Heads are shared, not rows: a single decoded token keeps every worker busy.
void TransformerModel::rotate_queries(const Part& p, size_t layer) {
  const LayerWeights& w = weights_.layers[layer];
  const size_t rope = config_.layers[layer].rope;
  const Range items = p.worker.share(p.pass.n_rows() * config_.n_heads);
  for (size_t item = items.begin; item < items.end; ++item) {
    const size_t row = item / config_.n_heads, head = item % config_.n_heads;
    rotate_head(p, acts_.q, w.bq, w.q_norm, layer, row, head);
    if (p.pass.query_scales.empty() || (config_.query_growth_without_rope && rope != kNoRope)) continue;
    const size_t d = config_.layers[layer].head_dim;
    kernels_->scale(acts_.q.row(row) + head * d, p.pass.query_scales[row], d);
  }
}

// k = rope(norm(k + bk)) and v = norm(v + bv), by the worker that stores them.
void TransformerModel::store_keys_and_values(const Part& p, size_t layer) {
  const LayerWeights& w = weights_.layers[layer];
  const LayerConfig& of_layer = config_.layers[layer];
  const size_t d = of_layer.head_dim;
  size_t first_row = 0;
  for (const SequenceChunk& chunk : p.pass.batch) {
    auto finish = [&](size_t row, size_t head) {
      float* v = acts_.v.row(first_row + row) + head * d;
      if (of_layer.value_is_key) std::copy_n(acts_.k.row(first_row + row) + head * d, d, v);
      rotate_head(p, acts_.k, w.bk, w.k_norm, layer, first_row + row, head);
      add_bias(w.bv, head * d, d, acts_.v.row(first_row + row));
      if (config_.value_norm) kernels_->rms_norm(v, acts_.ones, config_.norm_eps, d, v);
    };
    chunk.entry->append(p.worker, *kernels_, of_layer.kv_layer, acts_.k.row(first_row), acts_.v.row(first_row),
                        acts_.k.stride, chunk.tokens.size(), finish);
    first_row += chunk.tokens.size();
  }
}

void TransformerModel::rotate_head(const Part& p, Rows rows, WeightVector bias, WeightVector norm, size_t layer,
                                   size_t row, size_t head) {
  const size_t d = config_.layers[layer].head_dim, rope = config_.layers[layer].rope;
  float* x = rows.row(row) + head * d;
  if (config_.qk_norm != QkNorm::kWhole) add_bias(bias, head * d, d, rows.row(row));
  const bool each = config_.qk_norm == QkNorm::kEachHead, plain = config_.qk_norm == QkNorm::kUnweighted;
  const bool normed = each || config_.qk_norm == QkNorm::kPerHead || (plain && rope != kNoRope);
  if (each) norm = norm.subspan(head * d, d);
  if (plain) norm = WeightVector(acts_.ones, d);
  if (normed && !config_.qk_norm_after_rope) norm_row(x, norm, {}, d, x);
  if (rope != kNoRope) kernels_->rope(x, p.own.cos_sin[rope].row(row), config_.ropes[rope].rotary_dim);
  if (normed && config_.qk_norm_after_rope) norm_row(x, norm, {}, d, x);
}

// Heads are shared, whatever rows a worker has: `attended` is everybody's.
void TransformerModel::gate_attended(const Part& p, size_t layer) {
  const size_t d = config_.layers[layer].head_dim;
  const Range items = p.worker.share(p.pass.n_rows() * config_.n_heads);
  for (size_t item = items.begin; item < items.end; ++item) {
    const size_t row = item / config_.n_heads, first = item % config_.n_heads * d;
    float* gate = acts_.attn_gate.row(row) + first;
    kernels_->activate({Activation::Kind::kSigmoid}, gate, d, gate);
    kernels_->multiply(acts_.attended.row(row) + first, gate, d);
  }
  p.worker.barrier();
}

// gate = max(gate - cutoff, 0), a cutoff of so many standard deviations above the row's mean: rows are shared.
void TransformerModel::cut_gates(const Part& p, size_t layer) {
  const size_t n = config_.layers[layer].ffn_dim;
  p.worker.barrier();
  const Range own = p.worker.share(p.pass.n_rows());
  for (size_t i = own.begin; i < own.end; ++i) {
    float* gate = acts_.gate.row(i);
    double sum = 0, squares = 0;
    for (size_t k = 0; k < n; ++k) sum += static_cast<double>(gate[k]);
    const double mean = sum / static_cast<double>(n);
    for (size_t k = 0; k < n; ++k) {
      const double apart = static_cast<double>(gate[k]) - mean;
      squares += apart * apart;
    }
    const double deviation = std::sqrt(squares / static_cast<double>(n));
    const auto cutoff = static_cast<float>(mean + deviation * static_cast<double>(*config_.layers[layer].gate_cutoff));
    for (size_t k = 0; k < n; ++k) gate[k] = std::max(gate[k] - cutoff, 0.0f);
  }
  p.worker.barrier();
}

// gated = f(gate + b_gate) * (up + b_up), and in int8: the columns of `panels`, all rows.
void TransformerModel::gate(const Part& p, size_t layer, LinearInput& gated, Range panels) {
  const LayerWeights& w = weights_.layers[layer];
  const Activation& f = config_.layers[layer].activation;
  const size_t first = panels.begin * kPanelRows;
  if (panels.empty()) return;
  const size_t n = std::min(panels.end * kPanelRows, w.w_up.n_rows) - first;
  // The padding belongs to whoever has the last columns.
  const bool last = panels.end == w.w_up.n_panels();
  const Range blocks{first / kQuantBlock, last ? gated.quantized.blocks() : (first + n) / kQuantBlock};
  for (size_t i = 0; i < p.pass.n_rows(); ++i) {
    float* values = gated.values + i * gated.stride + first;
    float* up = acts_.up.row(i) + first;
    add_bias(w.b_up, first, n, acts_.up.row(i));
    if (config_.gated) {
      add_bias(w.b_gate, first, n, acts_.gate.row(i));
      activate_and_multiply(f, acts_.gate.row(i) + first, up, n, values);
    } else {
      kernels_->activate(f, up, n, values);
    }
    if (gated.quantized.q != nullptr) kernels_->quantize_blocks(values - first, i, blocks, gated.quantized);
  }
}

void TransformerModel::activate_and_multiply(const Activation& f, const float* gate, const float* up, size_t n,
                                             float* y) const {
  if (f.kind == Activation::Kind::kSilu) return kernels_->silu_mul(gate, up, n, y);
  kernels_->activate(f, gate, n, y);
  kernels_->multiply(y, up, n);
}

// x[first..first + n) += bias, where the model has one.
void TransformerModel::add_bias(WeightVector bias, size_t first, size_t n, float* x) const {
  if (!bias.empty()) kernels_->add(x + first, bias.data() + first, n);
}

// x += norm(from + bias) residual_scale
void TransformerModel::add_residual(const Part& p, Rows from, WeightVector bias, WeightVector post_norm) {
  const size_t n = config_.dim;
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    float* x = p.own.x.row(i);
    if (!config_.changes_residuals()) {
      kernels_->add(x, from.row(i), n);
      add_bias(bias, 0, n, x);
      continue;
    }
    float* added = p.own.added.row(i);
    std::copy_n(from.row(i), n, added);
    add_bias(bias, 0, n, added);
    if (!post_norm.empty()) norm_row(added, post_norm, {}, n, added);
    if (config_.residual_scale != 1) kernels_->scale(added, config_.residual_scale, n);
    kernels_->add(x, added, n);
  }
}

void TransformerModel::scale_rows(const Part& p, float factor) {
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) kernels_->scale(p.own.x.row(i), factor, config_.dim);
}

// Columns are shared: few rows ask for logits.
void TransformerModel::finish_logits(const Part& p) {
  p.worker.barrier();
  const Range columns = p.worker.share(config_.vocab_size, kPanelRows);
  for (size_t i = 0; i < p.pass.logit_rows.size(); ++i) {
    float* logits = p.pass.logits + i * p.pass.logits_stride + columns.begin;
    if (config_.logit_scale != 1) kernels_->scale(logits, config_.logit_scale, columns.size());
    if (config_.logit_softcap != 0) kernels_->softcap(logits, config_.logit_softcap, columns.size());
  }
}

// The first of the layers, whichever worker is first to see it.
void TransformerModel::note_lost_router(const Part& p, size_t layer) {
  size_t none = kNoLayer;
  p.pass.lost_router.compare_exchange_strong(none, layer);
}

// A number that is not finite stays so in x, so x is looked at. Elsewhere it would go unnoticed: int8 inputs of
// later layers hide it, and rows that ask for no logits would be kept.
void TransformerModel::look_for_lost_rows(const Part& p, size_t layer) const {
  if (p.alone && p.worker.index() != 0) return;
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    if (all_finite({p.own.x.row(i), config_.dim})) continue;
    size_t none = kNoLayer;
    p.pass.lost_layer.compare_exchange_strong(none, layer);
    return;
  }
}

// Everybody reads the answer behind the barriers of the layer's attention.
void TransformerModel::look_for_stop(const Part& p, size_t layer) {
  if (p.worker.index() != 0) return;
  if (observer_) observer_(layer);
  if (p.pass.stop.stop_requested()) p.pass.cancelled = true;
}

}  // namespace ibid
