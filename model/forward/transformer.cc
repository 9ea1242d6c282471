// The forward pass. Shapes: T rows of the pass, D dim, H heads, G KV heads, d head_dim, F ffn_dim, V vocab_size.
// Sources: Vaswani et al. 2017; Touvron et al. 2023 (Llama); Su et al. 2021 (RoPE); Ainslie et al. 2023 (GQA).
//
// Xiong et al. 2020 (norms before), Wang & Komatsuzaki 2021 (parallel blocks).
//
// Every function below run() is executed by all workers of a parallel region, each with its Part of the pass
// (transformer_rows.cc shares rows, heads and columns). A barrier stands wherever one worker reads what another wrote:
// four a layer, one more after row steps that are shared. What an architecture does not have is an empty weight or a
// factor of 1, and costs nothing.
#include "model/forward/transformer.h"

#include <algorithm>

#include "kernels/linear/pack.h"
#include "model/forward/attention_shape.h"

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
  if (pass.lost_router != kNoLayer) {
    return {ErrorCode::kNonFinite, "the router of the experts of layer " + std::to_string(pass.lost_router) +
                                       " computed no finite number"};
  }
  if (pass.lost_layer != kNoLayer) {
    return {ErrorCode::kNonFinite,
            "layer " + std::to_string(pass.lost_layer) + " computed a number that is not finite"};
  }
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
    if (config_.altup.used()) predict_streams(part, layer);              // x: the active stream
    attention_block(part, layer);
    if (pass.cancelled) return;  // cancellation point: one layer; behind barriers, so that all take the same decision
    mlp_block(part, layer);
    finish_layer(part, layer);
    look_for_lost_rows(part, layer);
  }
  if (layers.end == config_.n_layers && pass.logits != nullptr) lm_head(part);
}

// x = E[token] (+ P[position]); the angles of every row's position, for all layers.
void TransformerModel::embed(Part& p) {
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    float* x = p.own.x.row(i);                                           // [D]
    unpack_row(weights_.embed, static_cast<size_t>(p.pass.tokens[i]), x);
    if (config_.embed_scale != 1) kernels_->scale(x, config_.embed_scale, config_.dim);
    if (config_.learned_positions) {
      float* position = p.own.h.values + i * p.own.h.stride;             // [D] not needed yet
      unpack_row(weights_.positions, p.pass.positions[i], position);
      kernels_->add(x, position, config_.dim);
    }
    for (size_t r = 0; r < ropes_.size(); ++r) rope_angles(ropes_[r], p.pass.positions[i], p.own.cos_sin[r].row(i));
  }
  if (config_.layer_inputs.used()) make_layer_inputs(p);
  if (config_.altup.used()) spread_streams(p);                           // n streams of x
}

// x += Wo attend(q, k, v),  q = rope(norm(Wq h)), k = rope(norm(Wk h)), v = Wv h,  h = norm(x)
void TransformerModel::attention_block(Part& p, size_t layer) {
  const LayerWeights& w = weights_.layers[layer];
  const Activations& a = acts_;

  norm(p, w.attn_norm, w.attn_norm_bias);                                // h = norm(x)            [T, D]
  p.meet();
  project(p, layer);                                                     // q, and k and v in the cache
  if (config_.laurel_rank != 0) project_laurel(p, layer);
  p.worker.barrier();
  AttentionShape shape = attention_shape(config_, layer);
  if (!w.sinks.empty()) shape.sinks = w.sinks.data();
  const KvLayer& kv = kv_layout_.layer(config_.layers[layer].kv_layer);  // its own, or an earlier layer's
  attention(p.worker, *kernels_, shape, kv.block, kv.offset,
            config_.layers[layer].chunked ? p.pass.chunks : p.pass.sequences, a.q.data, a.attended.data,
            a.attended.stride, a.attention_scratch);
  if (config_.attention_gate) gate_attended(p, layer);                        // attended *= sigmoid(gate)
  if (config_.latent.used()) drop_padding(p);
  LinearInput attended = of_width(p.own.attended, config_.attended_dim(layer));
  quantize(p, attended);                                                 //                        [T, H d]
  p.meet();
  linear(p.worker, linear_, w.wo, attended, a.block_out.data, a.block_out.stride);
  p.worker.barrier();
  // A parallel MLP reads x as attention did: its norm, if it has one of its own, comes before the sum.
  if (config_.parallel && !w.ffn_norm.empty()) norm(p, w.ffn_norm, w.ffn_norm_bias);
  add_residual(p, a.block_out, w.bo, w.attn_post_norm);                  // x += Wo attended       [T, D]
  if (config_.laurel_rank != 0) add_laurel(p, layer);                    // x = (x + h + laurel(h)) / sqrt 2
}

// The queries, keys and values of a layer from h.
void TransformerModel::project(Part& p, size_t layer) {
  if (config_.latent.used()) return project_latent(p, layer);
  const LayerWeights& w = weights_.layers[layer];
  const Activations& a = acts_;

  linear(p.worker, linear_, w.wq, p.own.h, a.q.data, a.q.stride);        // q = Wq h               [T, H d]
  if (!w.wk.empty()) linear(p.worker, linear_, w.wk, p.own.h, a.k.data, a.k.stride);  // k = Wk h   [T, G d]
  if (!w.wv.empty()) linear(p.worker, linear_, w.wv, p.own.h, a.v.data, a.v.stride);  // v = Wv h   [T, G d]
  if (config_.attention_gate) {
    linear(p.worker, linear_, w.w_attn_gate, p.own.h, a.attn_gate.data, a.attn_gate.stride);
  }
  p.worker.barrier();
  if (config_.qk_norm == QkNorm::kWhole) {
    norm_whole(p, a.q, w.bq, w.q_norm);                                  // q = norm(q + bq)
    norm_whole(p, a.k, w.bk, w.k_norm);
    p.worker.barrier();
  }
  rotate_queries(p, layer);                                              // q = rope(norm(q + bq))
  if (config_.layers[layer].writes_kv) store_keys_and_values(p, layer);  // in their final, rounded form
}

// x += W_down (f(W_gate h) * W_up h),  h = norm(x)
void TransformerModel::mlp_block(Part& p, size_t layer) {
  const LayerWeights& w = weights_.layers[layer];
  const Activations& a = acts_;

  if (!config_.parallel) norm(p, w.ffn_norm, w.ffn_norm_bias);           // h = norm(x)            [T, D]
  p.meet();
  if (w.w_up.empty()) return mix_experts(p, layer);
  // The columns of gate and up that one worker computes are those that it multiplies: no barrier in between.
  const Range panels = p.worker.share(w.w_up.n_panels(), kQuantBlock / kPanelRows);
  if (config_.gated) linear_panels(p.worker, linear_, w.w_gate, p.own.h, panels, a.gate.data, a.gate.stride);
  linear_panels(p.worker, linear_, w.w_up, p.own.h, panels, a.up.data, a.up.stride);         //    [T, F]
  if (config_.layers[layer].gate_cutoff) cut_gates(p, layer);            // gate = max(gate - cutoff, 0)
  LinearInput gated = of_width(p.pass.gated, config_.layers[layer].ffn_dim);
  gate(p, layer, gated, panels);                                         // gated = f(gate) up     [T, F]
  p.worker.barrier();
  linear(p.worker, linear_, w.w_down, gated, a.block_out.data, a.block_out.stride);
  p.worker.barrier();
  if (config_.layers[layer].has_experts) return mix_experts_beside(p, layer);
  add_residual(p, a.block_out, w.b_down, w.ffn_post_norm);               // x += W_down gated      [T, D]
}

// x += the weighted sum of what the chosen experts give, and the shared one; h is computed.
void TransformerModel::mix_experts(Part& p, size_t layer) {
  const LayerWeights& w = weights_.layers[layer];
  const MoeStep step{p.worker, linear_, p.own.h, p.own.h, p.alone, p.rows, acts_.block_out};
  if (!moe_block(step, config_.moe, w.moe, acts_.moe)) note_lost_router(p, layer);
  p.worker.barrier();
  add_residual(p, acts_.block_out, {}, w.ffn_post_norm);
}

// The steps after attention and MLP that few models have.
void TransformerModel::finish_layer(Part& p, size_t layer) {
  const WeightVector out_scale = weights_.layers[layer].out_scale;
  if (config_.altup.used()) correct_streams(p, layer);                   // all of them, by what the active one became
  if (config_.layer_inputs.used()) add_layer_input(p, layer);            // x += what the token gives this layer
  if (!out_scale.empty()) scale_rows(p, out_scale[0]);
}

// logits = W_head norm(x), for the rows that asked.
void TransformerModel::lm_head(Part& p) {
  const size_t n = p.pass.logit_rows.size();
  if (config_.altup.used()) gather_streams(p);                           // x: their mean
  p.meet();                           // rows of x are read by another share than wrote them
  Part head(p.worker, p.pass, acts_, n);
  for (size_t i = head.rows.begin; i < head.rows.end; ++i) {
    norm_row(p.own.x.row(p.pass.logit_rows[i]), weights_.final_norm, weights_.final_norm_bias, config_.dim,
             head.own.h.values + i * head.own.h.stride);
  }
  quantize(head, head.own.h);                                            //                        [n, D]
  head.meet();
  linear(p.worker, linear_, weights_.lm_head, head.own.h, p.pass.logits, p.pass.logits_stride);  // [n, V]
  if (config_.logit_scale != 1 || config_.logit_softcap != 0) finish_logits(p);
}

}  // namespace ibid
