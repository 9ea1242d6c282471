// The forward pass. Shapes: T rows of the pass, D dim, H heads, G KV heads, d head_dim, F ffn_dim, V vocab_size.
// Sources: Vaswani et al. 2017; Touvron et al. 2023 (Llama); Su et al. 2021 (RoPE); Ainslie et al. 2023 (GQA).
//
// Every function below run() is executed by all workers of one parallel region. A step that shares its
// work by rows hands the same rows to the same worker each time, so consecutive steps on rows need no
// barrier; a barrier stands wherever one worker reads what another wrote.
#include "model/transformer.h"

#include "kernels/pack.h"
#include "model/attention_shape.h"

namespace ibid {

Status TransformerModel::forward(std::span<const SequenceChunk> batch, std::stop_token stop, Logits& logits) {
  TRY(check(batch));
  for (const SequenceChunk& chunk : batch) TRY(chunk.entry->reserve(chunk.tokens.size()));

  Pass pass;
  pass.stop = std::move(stop);
  lay_out(batch, logits, pass);
  team_.run([&](const Worker& worker) { run(worker, pass); });
  if (pass.cancelled) return {ErrorCode::kCancelled, "the pass was cancelled"};
  TRY(check_finite(logits));

  for (const SequenceChunk& chunk : batch) chunk.entry->commit(chunk.tokens);  // the only line that grows a sequence
  return {};
}

void TransformerModel::run(const Worker& worker, Pass& pass) {
  embed(worker, pass);
  for (size_t layer = 0; layer < config_.n_layers; ++layer) {
    if (stopped(worker, layer, pass)) return;  // cancellation point: one layer
    attention_block(worker, layer, pass);
    mlp_block(worker, layer, pass);
  }
  if (pass.logits != nullptr) lm_head(worker, pass);
}

// x = E[token]; the angles of every row's position, for all layers.
void TransformerModel::embed(const Worker& worker, Pass& pass) {
  const Range rows = worker.share(pass.n_rows());
  for (size_t i = rows.begin; i < rows.end; ++i) {
    unpack_row(weights_.embed, static_cast<size_t>(pass.tokens[i]), acts_.x.row(i));  // [D]
    rope_angles(rope_, pass.positions[i], acts_.cos_sin.row(i));
  }
}

// x += Wo attend(rope(Wq h), rope(Wk h), Wv h),  h = norm(x)
void TransformerModel::attention_block(const Worker& worker, size_t layer, Pass& pass) {
  const LayerWeights& w = weights_.layers[layer];
  Activations& a = acts_;

  norm(worker, pass, w.attn_norm);                                       // h = norm(x)            [T, D]
  worker.barrier();
  linear(worker, linear_, w.wq, a.h, a.q.data, a.q.stride);              // q = Wq h               [T, H d]
  linear(worker, linear_, w.wk, a.h, a.k.data, a.k.stride);              // k = Wk h               [T, G d]
  linear(worker, linear_, w.wv, a.h, a.v.data, a.v.stride);              // v = Wv h               [T, G d]
  worker.barrier();
  bias_and_rope(worker, pass, config_.n_heads, w.bq, a.q);
  bias_and_rope(worker, pass, config_.n_kv_heads, w.bk, a.k);
  add_bias(worker, pass, w.bv, a.v);
  worker.barrier();
  for (size_t s = 0; s < pass.batch.size(); ++s) {                       // stored in their final, rounded form
    const AttentionSequence& rows = pass.sequences[s];
    pass.batch[s].entry->append(worker, *kernels_, layer, a.k.row(rows.first_row), a.v.row(rows.first_row),
                                a.k.stride, rows.n_rows);
  }
  worker.barrier();
  attention(worker, *kernels_, attention_shape(config_, layer), kv_layout_.block, kv_layout_.layer_offset(layer),
            pass.sequences, a.q.data, a.attended.values, a.attended.stride, a.attention_scratch);
  quantize(worker, a.attended);                                          //                        [T, H d]
  worker.barrier();
  linear(worker, linear_, w.wo, a.attended, a.block_out.data, a.block_out.stride);
  worker.barrier();
  add_residual(worker, pass, w.bo);                                      // x += Wo attended       [T, D]
}

// x += W_down (silu(W_gate h) * W_up h),  h = norm(x)
void TransformerModel::mlp_block(const Worker& worker, size_t layer, Pass& pass) {
  const LayerWeights& w = weights_.layers[layer];
  Activations& a = acts_;

  norm(worker, pass, w.ffn_norm);                                        // h = norm(x)            [T, D]
  worker.barrier();
  linear(worker, linear_, w.w_gate, a.h, a.gate.data, a.gate.stride);    //                        [T, F]
  linear(worker, linear_, w.w_up, a.h, a.up.data, a.up.stride);          //                        [T, F]
  worker.barrier();
  add_bias(worker, pass, w.b_gate, a.gate);
  add_bias(worker, pass, w.b_up, a.up);
  const Range rows = worker.share(pass.n_rows());
  for (size_t i = rows.begin; i < rows.end; ++i) {
    kernels_->silu_mul(a.gate.row(i), a.up.row(i), config_.ffn_dim, a.gated.values + i * a.gated.stride);
  }
  quantize(worker, a.gated);                                             //                        [T, F]
  worker.barrier();
  linear(worker, linear_, w.w_down, a.gated, a.block_out.data, a.block_out.stride);
  worker.barrier();
  add_residual(worker, pass, w.b_down);                                  // x += W_down gated      [T, D]
}

// logits = W_head norm(x), for the rows that asked.
void TransformerModel::lm_head(const Worker& worker, Pass& pass) {
  const size_t n = pass.logit_rows.size();
  LinearInput h = acts_.h;  // the same memory, with as many rows as there are logits
  h.n_rows = h.quantized.n_rows = n;
  worker.barrier();  // rows of x are read by another share than wrote them
  const Range rows = worker.share(n);
  for (size_t i = rows.begin; i < rows.end; ++i) {
    kernels_->rms_norm(acts_.x.row(pass.logit_rows[i]), weights_.final_norm.data(), config_.norm_eps, config_.dim,
                       h.values + i * h.stride);
  }
  quantize(worker, h);                                                   //                        [n, D]
  worker.barrier();
  linear(worker, linear_, weights_.lm_head, h, pass.logits, pass.logits_stride);  //               [n, V]
}

// --- The steps that work row by row.

void TransformerModel::norm(const Worker& worker, const Pass& pass, WeightVector weight) {
  const Range rows = worker.share(pass.n_rows());
  for (size_t i = rows.begin; i < rows.end; ++i) {
    kernels_->rms_norm(acts_.x.row(i), weight.data(), config_.norm_eps, config_.dim,
                       acts_.h.values + i * acts_.h.stride);
  }
  quantize(worker, acts_.h);
}

void TransformerModel::quantize(const Worker& worker, LinearInput& input) {
  if (input.quantized.q == nullptr) return;
  const Range rows = worker.share(input.n_rows);
  for (size_t i = rows.begin; i < rows.end; ++i) {
    kernels_->quantize_row(input.values + i * input.stride, i, input.quantized);
  }
}

// Heads are shared, not rows: a single decoded token keeps every worker busy.
void TransformerModel::bias_and_rope(const Worker& worker, const Pass& pass, size_t n_heads, WeightVector bias,
                                     Rows rows) {
  const size_t d = config_.head_dim;
  const Range items = worker.share(pass.n_rows() * n_heads);
  for (size_t item = items.begin; item < items.end; ++item) {
    const size_t row = item / n_heads;
    const size_t head = item % n_heads;
    float* x = rows.row(row) + head * d;
    if (!bias.empty()) {
      for (size_t i = 0; i < d; ++i) x[i] += bias[head * d + i];
    }
    kernels_->rope(x, acts_.cos_sin.row(row), config_.rope.rotary_dim);
  }
}

void TransformerModel::add_bias(const Worker& worker, const Pass& pass, WeightVector bias, Rows rows) {
  if (bias.empty()) return;
  const Range mine = worker.share(pass.n_rows());
  for (size_t i = mine.begin; i < mine.end; ++i) kernels_->add(rows.row(i), bias.data(), bias.size());
}

void TransformerModel::add_residual(const Worker& worker, const Pass& pass, WeightVector bias) {
  add_bias(worker, pass, bias, acts_.block_out);
  const Range rows = worker.share(pass.n_rows());
  for (size_t i = rows.begin; i < rows.end; ++i) {
    kernels_->add(acts_.x.row(i), acts_.block_out.row(i), config_.dim);
  }
}

bool TransformerModel::stopped(const Worker& worker, size_t layer, Pass& pass) const {
  if (worker.index() == 0) {
    if (observer_) observer_(layer);
    if (pass.stop.stop_requested()) pass.cancelled = true;
  }
  worker.barrier();  // every worker takes the same decision
  return pass.cancelled;
}

}  // namespace ibid
