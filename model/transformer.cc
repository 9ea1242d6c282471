// The forward pass. Shapes: T rows of the pass, D dim, H heads, G KV heads, d head_dim, F ffn_dim, V vocab_size.
// Sources: Vaswani et al. 2017; Touvron et al. 2023 (Llama); Su et al. 2021 (RoPE); Ainslie et al. 2023 (GQA).
//
// Every function below run() is executed by all workers of a parallel region, each with its Part of the pass.
// Steps on rows compute the worker's own rows (Part::rows): consecutive ones need no barrier, and in a small pass,
// where every worker has all rows to itself, neither do the linear layers that read them. A barrier stands wherever
// one worker reads what another wrote: four a layer, one more after row steps that are shared.
#include "model/transformer.h"

#include <algorithm>

#include "kernels/pack.h"
#include "model/attention_shape.h"

namespace ibid {

Status TransformerModel::forward(std::span<const SequenceChunk> batch, std::stop_token stop, Logits& logits) {
  TRY(check(batch));
  for (const SequenceChunk& chunk : batch) TRY(chunk.entry->reserve(chunk.tokens.size()));

  Pass pass;
  pass.stop = std::move(stop);
  lay_out(batch, logits, pass);
  // Few rows stay in the workers' own copies from end to end. Of many, a layer takes long enough for a region of its
  // own, so that a busy machine does not keep the whole pass waiting for a thread (base/crowding.h).
  const size_t step = pass.n_rows() <= Activations::kOwnRows ? config_.n_layers : 1;
  for (size_t layer = 0; layer < config_.n_layers && !pass.cancelled; layer += step) {
    team_->run([&](const Worker& worker) { run(worker, pass, {layer, layer + step}); });
  }
  if (pass.cancelled) return {ErrorCode::kCancelled, "the pass was cancelled"};
  TRY(check_finite(logits));

  for (const SequenceChunk& chunk : batch) chunk.entry->commit(chunk.tokens);  // the only line that grows a sequence
  return {};
}

// The first layers begin with the embeddings, the last end with the logits.
void TransformerModel::run(const Worker& worker, Pass& pass, Range layers) {
  Part part(worker, pass, acts_);
  if (layers.begin == 0) embed(part);
  for (size_t layer = layers.begin; layer < layers.end; ++layer) {
    look_for_stop(part, layer);
    attention_block(part, layer);
    if (pass.cancelled) return;  // cancellation point: one layer; behind barriers, so that all take the same decision
    mlp_block(part, layer);
  }
  if (layers.end == config_.n_layers && pass.logits != nullptr) lm_head(part);
}

// x = E[token]; the angles of every row's position, for all layers.
void TransformerModel::embed(Part& p) {
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    unpack_row(weights_.embed, static_cast<size_t>(p.pass.tokens[i]), p.own.x.row(i));  // [D]
    rope_angles(rope_, p.pass.positions[i], p.own.cos_sin.row(i));
  }
}

// x += Wo attend(rope(Wq h), rope(Wk h), Wv h),  h = norm(x)
void TransformerModel::attention_block(Part& p, size_t layer) {
  const LayerWeights& w = weights_.layers[layer];
  const Activations& a = acts_;

  norm(p, w.attn_norm);                                                  // h = norm(x)            [T, D]
  p.meet();
  linear(p.worker, linear_, w.wq, p.own.h, a.q.data, a.q.stride);        // q = Wq h               [T, H d]
  linear(p.worker, linear_, w.wk, p.own.h, a.k.data, a.k.stride);        // k = Wk h               [T, G d]
  linear(p.worker, linear_, w.wv, p.own.h, a.v.data, a.v.stride);        // v = Wv h               [T, G d]
  p.worker.barrier();
  rotate_queries(p, w);                                                  // q = rope(q + bq)
  store_keys_and_values(p, layer);                                       // in their final, rounded form
  p.worker.barrier();
  attention(p.worker, *kernels_, attention_shape(config_, layer), kv_layout_.block, kv_layout_.layer_offset(layer),
            p.pass.sequences, a.q.data, a.attended.data, a.attended.stride, a.attention_scratch);
  quantize(p, p.own.attended);                                           //                        [T, H d]
  p.meet();
  linear(p.worker, linear_, w.wo, p.own.attended, a.block_out.data, a.block_out.stride);
  p.worker.barrier();
  add_residual(p, w.bo);                                                 // x += Wo attended       [T, D]
}

// x += W_down (silu(W_gate h) * W_up h),  h = norm(x)
void TransformerModel::mlp_block(Part& p, size_t layer) {
  const LayerWeights& w = weights_.layers[layer];
  const Activations& a = acts_;

  norm(p, w.ffn_norm);                                                   // h = norm(x)            [T, D]
  p.meet();
  // The columns of gate and up that one worker computes are those that it multiplies: no barrier in between.
  const Range panels = p.worker.share(w.w_gate.n_panels(), kQuantBlock / kPanelRows);
  linear_panels(p.worker, linear_, w.w_gate, p.own.h, panels, a.gate.data, a.gate.stride);   //    [T, F]
  linear_panels(p.worker, linear_, w.w_up, p.own.h, panels, a.up.data, a.up.stride);         //    [T, F]
  gate(p, w, panels);                                                    // gated = silu(gate) up  [T, F]
  p.worker.barrier();
  linear(p.worker, linear_, w.w_down, p.pass.gated, a.block_out.data, a.block_out.stride);
  p.worker.barrier();
  add_residual(p, w.b_down);                                             // x += W_down gated      [T, D]
}

// logits = W_head norm(x), for the rows that asked.
void TransformerModel::lm_head(Part& p) {
  const size_t n = p.pass.logit_rows.size();
  p.meet();                           // rows of x are read by another share than wrote them
  Part head(p.worker, p.pass, acts_, n);
  for (size_t i = head.rows.begin; i < head.rows.end; ++i) {
    kernels_->rms_norm(p.own.x.row(p.pass.logit_rows[i]), weights_.final_norm.data(), config_.norm_eps, config_.dim,
                       head.own.h.values + i * head.own.h.stride);
  }
  quantize(head, head.own.h);                                            //                        [n, D]
  head.meet();
  linear(p.worker, linear_, weights_.lm_head, head.own.h, p.pass.logits, p.pass.logits_stride);  // [n, V]
}

// --- The steps that work row by row, or column by column.

void TransformerModel::norm(Part& p, WeightVector weight) {
  LinearInput& h = p.own.h;
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    kernels_->rms_norm(p.own.x.row(i), weight.data(), config_.norm_eps, config_.dim, h.values + i * h.stride);
  }
  quantize(p, h);
}

void TransformerModel::quantize(const Part& p, LinearInput& input) {
  if (input.quantized.q == nullptr) return;
  const Range all{0, input.quantized.blocks()};
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    kernels_->quantize_blocks(input.values + i * input.stride, i, all, input.quantized);
  }
}

// Heads are shared, not rows: a single decoded token keeps every worker busy.
void TransformerModel::rotate_queries(const Part& p, const LayerWeights& w) {
  const Range items = p.worker.share(p.pass.n_rows() * config_.n_heads);
  for (size_t item = items.begin; item < items.end; ++item) {
    rotate_head(p, acts_.q, w.bq, item / config_.n_heads, item % config_.n_heads);
  }
}

// k = rope(k + bk) and v = v + bv, by the worker that stores them.
void TransformerModel::store_keys_and_values(const Part& p, size_t layer) {
  const LayerWeights& w = weights_.layers[layer];
  size_t first_row = 0;
  for (const SequenceChunk& chunk : p.pass.batch) {
    auto finish = [&](size_t row, size_t head) {
      rotate_head(p, acts_.k, w.bk, first_row + row, head);
      add_bias(w.bv, head * config_.head_dim, config_.head_dim, acts_.v.row(first_row + row));
    };
    chunk.entry->append(p.worker, *kernels_, layer, acts_.k.row(first_row), acts_.v.row(first_row), acts_.k.stride,
                        chunk.tokens.size(), finish);
    first_row += chunk.tokens.size();
  }
}

void TransformerModel::rotate_head(const Part& p, Rows rows, WeightVector bias, size_t row, size_t head) {
  const size_t first = head * config_.head_dim;
  add_bias(bias, first, config_.head_dim, rows.row(row));
  kernels_->rope(rows.row(row) + first, p.own.cos_sin.row(row), config_.rope.rotary_dim);
}

// gated = silu(gate + b_gate) * (up + b_up), and in int8: the columns of `panels`, all rows.
void TransformerModel::gate(const Part& p, const LayerWeights& w, Range panels) {
  const size_t first = panels.begin * kPanelRows;
  const size_t n = std::min(panels.end * kPanelRows, config_.ffn_dim) - first;
  if (panels.empty()) return;
  LinearInput& gated = p.pass.gated;
  // The padding belongs to whoever has the last columns.
  const bool last = panels.end == w.w_gate.n_panels();
  const Range blocks{first / kQuantBlock, last ? gated.quantized.blocks() : (first + n) / kQuantBlock};
  for (size_t i = 0; i < p.pass.n_rows(); ++i) {
    add_bias(w.b_gate, first, n, acts_.gate.row(i));
    add_bias(w.b_up, first, n, acts_.up.row(i));
    float* values = gated.values + i * gated.stride;
    kernels_->silu_mul(acts_.gate.row(i) + first, acts_.up.row(i) + first, n, values + first);
    if (gated.quantized.q != nullptr) kernels_->quantize_blocks(values, i, blocks, gated.quantized);
  }
}

// x[first..first + n) += bias, where the model has one.
void TransformerModel::add_bias(WeightVector bias, size_t first, size_t n, float* x) {
  if (!bias.empty()) kernels_->add(x + first, bias.data() + first, n);
}

void TransformerModel::add_residual(const Part& p, WeightVector bias) {
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    kernels_->add(p.own.x.row(i), acts_.block_out.row(i), config_.dim);
    add_bias(bias, 0, config_.dim, p.own.x.row(i));
  }
}

// Everybody reads the answer behind the barriers of the layer's attention.
void TransformerModel::look_for_stop(const Part& p, size_t layer) {
  if (p.worker.index() != 0) return;
  if (observer_) observer_(layer);
  if (p.pass.stop.stop_requested()) p.pass.cancelled = true;
}

}  // namespace ibid
