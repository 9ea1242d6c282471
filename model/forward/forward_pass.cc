// The forward pass. A layer, if the architecture has all of its parts:
//   h = norm(x)    q = rope(norm(Wq h + bq))    k = rope(norm(Wk h + bk))    v = Wv h + bv
//   x = x + norm(Wo attend(q, k, v) + bo)
//   h = norm(x)    x = x + norm(W_down (f(W_gate h + b_gate) * (W_up h + b_up)) + b_down)
// Shapes: T rows of the pass, D dim, H heads, G KV heads, d head_dim, F ffn_dim, V vocab_size.
// Sources: Vaswani et al. 2017; Touvron et al. 2023 (Llama); Su et al. 2021 (RoPE); Ainslie et al. 2023 (GQA);
// Xiong et al. 2020 (norms before); Wang & Komatsuzaki 2021 (parallel blocks).
//
// All workers of a parallel region execute every function, each with its part of the pass (row_steps.cc splits rows,
// heads and columns). A barrier separates each write from reads by other workers: four per layer. In passes of many
// rows, the workers also divide the rows of row steps, with one more barrier after each sequence of row steps.
//
// Parts that an architecture lacks cost nothing: their weights are empty, their factors 1. Steps that few
// architectures have are in architecture_steps.h.
#include "model/forward/pass.h"

#include <algorithm>

#include "base/checked.h"
#include "kernels/layout/pack.h"
#include "model/config/attention_shape.h"
#include "model/forward/architecture_steps.h"
#include "model/forward/moe_block.h"
#include "model/forward/row_steps.h"

namespace ibid::forward {

namespace {

void embed(PassPart& p);
void mix_tokens(PassPart& p, size_t layer);
void attention_block(PassPart& p, size_t layer);
void project(PassPart& p, size_t layer);
void mlp_block(PassPart& p, size_t layer);
void gate_and_up(PassPart& p, size_t layer, LinearInput& gated);
void mix_experts(PassPart& p, size_t layer);
void finish_layer(PassPart& p, size_t layer);
void finish_pass(PassPart& p);
void lm_head(PassPart& p);

}  // namespace

// Layer 0 starts with the embeddings; the last layer ends with the logits or hidden states.
void run_layers(const Worker& worker, Pass& pass, Range layers) {
  const ModelConfig& config = pass.model.config;
  PassPart part(worker, pass, pass.n_rows());
  if (layers.begin == 0) embed(part);
  for (size_t layer = layers.begin; layer < layers.end; ++layer) {
    check_cancelled(part, layer);
    if (config.altup.used()) predict_streams(part, layer);  // from here on x is the active stream
    mix_tokens(part, layer);
    if (pass.stopped_layer <= layer) return;  // read after barriers, so that all workers decide alike
    mlp_block(part, layer);
    finish_layer(part, layer);
    check_rows_finite(part, layer);
  }
  if (layers.end == config.n_layers) finish_pass(part);
}

namespace {

// x = E[token] (+ P[position]); also computes the RoPE angles of the rows' positions, for all layers.
void embed(PassPart& p) {
  const PassModel& m = p.model;
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    float* x = p.buffers.x.row(i);  // [D]
    unpack_row(m.weights.embed, static_cast<size_t>(p.pass.tokens[i]), x);
    if (m.config.embed_scale != 1) m.kernels.scale(x, m.config.embed_scale, m.config.dim);
    if (m.config.learned_positions) {
      float* position = p.buffers.h.values + i * p.buffers.h.stride;  // [D] in h, which is not used yet
      unpack_row(m.weights.positions, p.pass.positions[i], position);
      m.kernels.add(x, position, m.config.dim);
    }
    for (size_t r = 0; r < m.ropes.size(); ++r) {
      rope_angles(m.ropes[r], p.pass.positions[i], p.buffers.cos_sin[r].row(i));
    }
  }
  for (size_t i = p.rows.begin; i < p.rows.end && m.config.common.used(); ++i) {
    std::copy_n(p.buffers.x.row(i), m.config.dim, p.buffers.embedded.row(i));
  }
  if (m.config.layer_inputs.used()) make_layer_inputs(p);
  if (m.config.altup.used()) spread_streams(p);  // makes n streams from x
}

// Attention, a recurrent mixer, or both, which then read the same h = norm(x).
void mix_tokens(PassPart& p, size_t layer) {
  const LayerConfig& of_layer = p.model.config.layers[layer];
  const LayerWeights& w = p.model.weights.layers[layer];
  const bool recurs = of_layer.state_layer != kNoState;
  if (of_layer.common_layer != kNoLayer) {
    common_block(p, layer);
    return recurrent_block(p, layer);
  }
  if (of_layer.attends || recurs) {
    norm(p, w.attn_norm, w.attn_norm_bias);  // h = norm(x) [T, D]
    p.barrier_if_shared();
  }
  if (of_layer.attends) attention_block(p, layer);
  if (recurs) recurrent_block(p, layer);
  if (!of_layer.attends && !recurs) p.worker.barrier();
}

// x += norm(Wo attend(q, k, v) + bo)
void attention_block(PassPart& p, size_t layer) {
  const PassModel& m = p.model;
  const LayerWeights& w = m.weights.layers[layer];
  const Activations& a = m.acts;

  project(p, layer);  // computes q, and stores k and v in the cache
  if (m.config.laurel_rank != 0) project_laurel(p, layer);
  p.worker.barrier();
  attend(p, layer, w);
  // A parallel MLP reads the x that attention read. If the MLP has its own norm, compute it before x changes.
  if (m.config.parallel && !w.ffn_norm.empty()) norm(p, w.ffn_norm, w.ffn_norm_bias);
  add_residual(p, a.block_out, w.bo, w.attn_post_norm, m.config.attention_residual);  // x += norm(block_out + bo)
  if (m.config.laurel_rank != 0) add_laurel(p, layer);  // x = (x + h + laurel(h)) / sqrt 2
}

}  // namespace

void attend(PassPart& p, size_t layer, const LayerWeights& w) {
  const PassModel& m = p.model;
  const Activations& a = m.acts;
  AttentionShape shape = attention_shape(m.config, layer);
  if (!w.sinks.empty()) shape.sinks = w.sinks.data();
  const KvLayer& kv = m.kv_layout.layer(m.config.layers[layer].kv_layer);  // the layer's own KV, or an earlier layer's
  attention(p.worker, m.kernels, shape, kv.block, kv.offset, p.pass.sequences_of(layer), a.q.data, a.attended.data,
            a.attended.stride, a.attention_scratch);
  if (m.config.attention_gate) gate_attended(p, layer);  // attended *= sigmoid(gate)
  if (m.config.latent.used()) expand_values(p, layer);   // values = W_v attended
  LinearInput attended = of_width(p.buffers.attended, m.config.attended_dim(layer));
  quantize(p, attended);  // [T, H d]
  p.barrier_if_shared();
  linear(p, w.wo, attended, a.block_out);  // [T, D]
  p.worker.barrier();
}

namespace {

// Returns the weight of the norm of one head, [d]; empty: the head is not normed by itself.
WeightVector head_norm(const PassModel& m, const LayerConfig& of_layer, WeightVector weight, size_t head) {
  const size_t d = of_layer.head_dim;
  switch (m.config.qk_norm) {
    case QkNorm::kPerHead: return weight;
    case QkNorm::kEachHead: return weight.subspan(head * d, d);
    case QkNorm::kUnweighted: return of_layer.rope == kNoRope ? WeightVector() : WeightVector(m.acts.ones, d);
    case QkNorm::kNone:
    case QkNorm::kWhole: return {};
  }
  return {};
}

// Output of a linear layer, with the bias and the norm's weight to apply to it.
struct Projection {
  Rows rows;
  WeightVector bias, norm;
};

// x = rope(norm(x + b)), or norm(rope(x + b)): one head [d] of one row of q or k.
void rotate_head(const PassPart& p, const Projection& of, size_t layer, size_t row, size_t head) {
  const PassModel& m = p.model;
  const LayerConfig& of_layer = m.config.layers[layer];
  const size_t d = of_layer.head_dim, rope = of_layer.rope;
  float* x = of.rows.row(row) + head * d;
  const auto norm_x = [&, weight = head_norm(m, of_layer, of.norm, head)] {
    if (!weight.empty()) norm_row(m, x, weight, {}, d, x);
  };
  if (m.config.qk_norm != QkNorm::kWhole) add_bias(m, of.bias, head * d, d, of.rows.row(row));  // else see project()
  if (!m.config.qk_norm_after_rope) norm_x();
  if (rope != kNoRope) m.kernels.rope(x, p.buffers.cos_sin[rope].row(row), m.config.ropes[rope].rotary_dim);
  if (m.config.qk_norm_after_rope) norm_x();
}

}  // namespace

// Workers share heads, not rows, so that a single decoded token uses all workers.
void rotate_queries(const PassPart& p, size_t layer) {
  const PassModel& m = p.model;
  const LayerWeights& w = m.weights.layers[layer];
  const size_t rope = m.config.layers[layer].rope;
  const Range items = p.worker.share(p.pass.n_rows() * m.config.n_heads);
  for (size_t item = items.begin; item < items.end; ++item) {
    const size_t row = item / m.config.n_heads, head = item % m.config.n_heads;
    rotate_head(p, {m.acts.q, w.bq, w.q_norm}, layer, row, head);
    if (p.pass.query_scales.empty() || (m.config.query_growth_without_rope && rope != kNoRope)) continue;
    const size_t d = m.config.layers[layer].head_dim;
    m.kernels.scale(m.acts.q.row(row) + head * d, p.pass.query_scales[row], d);
  }
}

// k = rope(norm(k + bk))
// v = norm(v + bv); in layers that use the key as value (LayerConfig::value_is_key): v = norm(k + bk), without rope
// The worker that stores a row in the cache computes it.
void store_keys_and_values(const PassPart& p, size_t layer) {
  const PassModel& m = p.model;
  const LayerWeights& w = m.weights.layers[layer];
  const LayerConfig& of_layer = m.config.layers[layer];
  const size_t d = of_layer.head_dim;
  size_t first_row = 0;
  for (const SequenceChunk& chunk : p.pass.batch) {
    auto finish = [&](size_t row, size_t head) {
      float* v = m.acts.v.row(first_row + row) + head * d;
      if (of_layer.value_is_key) {
        std::copy_n(m.acts.k.row(first_row + row) + head * d, d, v);
        add_bias(m, w.bk, head * d, d, m.acts.v.row(first_row + row));
      }
      rotate_head(p, {m.acts.k, w.bk, w.k_norm}, layer, first_row + row, head);
      add_bias(m, w.bv, head * d, d, m.acts.v.row(first_row + row));
      if (m.config.value_norm) m.kernels.rms_norm(v, m.acts.ones, m.config.norm_eps, d, v);
    };
    chunk.entry->append(p.worker, m.kernels, of_layer.kv_layer, m.acts.k.row(first_row), m.acts.v.row(first_row),
                        m.acts.k.stride, chunk.tokens.size(), finish);
    first_row += chunk.tokens.size();
  }
}

namespace {

// Computes the queries, keys and values of a layer from h.
void project(PassPart& p, size_t layer) {
  const PassModel& m = p.model;
  if (m.config.latent.used()) return project_latent(p, layer);
  const LayerWeights& w = m.weights.layers[layer];
  const Activations& a = m.acts;

  linear(p, w.wq, p.buffers.h, a.q);                     // q = Wq h [T, H d]
  if (!w.wk.empty()) linear(p, w.wk, p.buffers.h, a.k);  // k = Wk h [T, G d]
  if (!w.wv.empty()) linear(p, w.wv, p.buffers.h, a.v);  // v = Wv h [T, G d]
  if (m.config.attention_gate) linear(p, w.w_attn_gate, p.buffers.h, a.attn_gate);
  p.worker.barrier();
  if (m.config.qk_norm == QkNorm::kWhole) {
    norm_whole(p, a.q, w.bq, w.q_norm);  // q = norm(q + bq), over all heads together
    norm_whole(p, a.k, w.bk, w.k_norm);
    p.worker.barrier();
  }
  rotate_queries(p, layer);                                               // q = rope(norm(q + bq))
  if (m.config.layers[layer].writes_kv) store_keys_and_values(p, layer);  // attention reads the cache's rounded k and v
}

// x += norm(W_down (f(W_gate h) * W_up h) + b_down),  h = norm(x)
void mlp_block(PassPart& p, size_t layer) {
  const PassModel& m = p.model;
  const LayerWeights& w = m.weights.layers[layer];
  const Activations& a = m.acts;

  if (!m.config.has_mlp(layer)) return;
  if (!m.config.parallel) norm(p, w.ffn_norm, w.ffn_norm_bias);  // h = norm(x) [T, D]
  p.barrier_if_shared();
  if (w.w_up.empty()) return mix_experts(p, layer);
  LinearInput gated = of_width(p.pass.gated, m.config.layers[layer].ffn_dim);
  gate_and_up(p, layer, gated);  // gated = f(W_gate h) * W_up h [T, F]
  p.worker.barrier();
  linear(p, w.w_down, gated, a.block_out);  // [T, D]
  p.worker.barrier();
  if (m.config.layers[layer].has_experts) return mix_experts_beside(p, layer);
  add_residual(p, a.block_out, w.b_down, w.ffn_post_norm, m.config.mlp_residual);  // x += norm(block_out + b_down)
}

// Returns the size of the parts into which n is divided, equal except for the last: a multiple of `grain`, at most
// `most`. REQUIRES: most >= grain.
size_t equal_part(size_t n, size_t most, size_t grain) {
  const size_t n_grains = round_up(n, grain) / grain;
  const size_t n_parts = std::max(round_up(n_grains, most / grain) / (most / grain), size_t{1});
  return round_up(n_grains, n_parts) / n_parts * grain;
}

// gated = f(W_gate h) * W_up h. Computes a part of gate and up and then its product, before the part leaves the L2
// cache. Each worker multiplies the columns of gate and up that it has computed, so no barrier is needed in between.
void gate_and_up(PassPart& p, size_t layer, LinearInput& gated) {
  const PassModel& m = p.model;
  const LayerWeights& w = m.weights.layers[layer];
  const LinearInput& h = p.buffers.h;
  const size_t n_rows = p.pass.n_rows(), grain = kQuantBlock / kPanelRows;
  const Range own = p.worker.share(w.w_up.n_panels(), grain);
  if (m.config.layers[layer].gate_cutoff) {
    if (m.config.gated) linear_panels(p, w.w_gate, h, own, m.acts.gate);
    linear_panels(p, w.w_up, h, own, m.acts.up);
    cut_gates(p, layer);  // gate = max(gate - cutoff, 0)
    const size_t first = own.begin * kPanelRows;
    const Rows gates{m.acts.gate.data + first, m.acts.gate.stride}, ups{m.acts.up.data + first, m.acts.up.stride};
    if (!own.empty()) gate(p, layer, {{0, n_rows}, own, gates, ups}, gated);
    return;
  }
  const auto thread = static_cast<size_t>(p.worker.index());
  float* const gates = m.config.gated ? m.acts.gate_part.row(thread) : nullptr;
  float* const ups = m.acts.up_part.row(thread);
  const size_t n_rows_of_part = equal_part(n_rows, Activations::gate_part_rows(m.config.dim), kRowGroup);
  for (size_t row = 0; row < n_rows; row += n_rows_of_part) {
    const Range rows{row, std::min(row + n_rows_of_part, n_rows)};
    const LinearInput input = h.rows(row, rows.size());
    const size_t n_panels = equal_part(own.size(), Activations::kGatePartFloats / kPanelRows / rows.size(), grain);
    for (size_t panel = own.begin; panel < own.end; panel += n_panels) {
      const Range panels{panel, std::min(panel + n_panels, own.end)};
      const size_t first = panel * kPanelRows, stride = panels.size() * kPanelRows;
      if (m.config.gated) linear_panels(p, w.w_gate, input, panels, {gates - first, stride});
      linear_panels(p, w.w_up, input, panels, {ups - first, stride});
      gate(p, layer, {rows, panels, {gates, stride}, {ups, stride}}, gated);
    }
  }
}

// x += the weighted sum of the chosen experts' outputs, plus that of the shared expert. REQUIRES: all of h is written.
void mix_experts(PassPart& p, size_t layer) {
  const PassModel& m = p.model;
  const LayerWeights& w = m.weights.layers[layer];
  const MoeStep step{p.worker, m.linear, p.buffers.h, p.buffers.h, p.computes_all, p.rows, m.acts.block_out};
  if (!moe_block(step, m.config.moe, w.moe, m.acts.moe)) note_lost_router(p, layer);
  p.worker.barrier();
  add_residual(p, m.acts.block_out, {}, w.ffn_post_norm, m.config.mlp_residual);
}

// Steps after attention and MLP that only few models have.
void finish_layer(PassPart& p, size_t layer) {
  const PassModel& m = p.model;
  const WeightVector out_scale = m.weights.layers[layer].out_scale;
  if (m.config.altup.used()) correct_streams(p, layer);         // changes all streams by the change of the active one
  if (m.config.layer_inputs.used()) add_layer_input(p, layer);  // x += per-layer embedding
  if (!out_scale.empty()) scale_rows(p, out_scale[0]);
}

// hidden = norm(x) and logits = W_head norm(x), each for the rows that want it.
void finish_pass(PassPart& p) {
  const PassModel& m = p.model;
  const std::vector<Pass::HiddenRow>& hidden = p.pass.hidden_rows;
  if (hidden.empty() && p.pass.logits.data == nullptr) return;
  if (m.config.altup.used()) gather_streams(p);     // x = mean of the streams
  p.barrier_if_shared();                            // from here on, workers divide other rows among them
  const Range own = p.worker.share(hidden.size());  // each worker computes a share of the outputs
  for (size_t i = own.begin; i < own.end; ++i) {
    norm_row(m, p.buffers.x.row(hidden[i].row), m.weights.final_norm, m.weights.final_norm_bias, m.config.dim,
             hidden[i].to);
  }
  if (p.pass.logits.data != nullptr) lm_head(p);
}

// logits = W_head norm(x)
void lm_head(PassPart& p) {
  const PassModel& m = p.model;
  const size_t n = p.pass.logit_rows.size();
  PassPart head(p.worker, p.pass, n);
  for (size_t i = head.rows.begin; i < head.rows.end; ++i) {
    norm_row(m, p.buffers.x.row(p.pass.logit_rows[i]), m.weights.final_norm, m.weights.final_norm_bias, m.config.dim,
             head.buffers.h.values + i * head.buffers.h.stride);
  }
  quantize(head, head.buffers.h);  // [n, D]
  head.barrier_if_shared();
  linear(p, m.weights.lm_head, head.buffers.h, p.pass.logits);  // [n, V]
  const bool has_bias = !m.weights.lm_head_bias.empty();
  if (has_bias || m.config.logit_scale != 1 || m.config.logit_softcap != 0) finish_logits(p);
}

}  // namespace

}  // namespace ibid::forward
