// Latent attention in the forward pass: see latent_attention.h.
#include "model/forward/latent_attention.h"

#include <algorithm>

#include "model/forward/transformer.h"

namespace ibid {

namespace {

// Pairs that lie side by side become halves, as Kernels::rope turns them. Queries and keys alike: their products stay
// what they were.
void copy_pairs_as_halves(const float* pairs, size_t n, float* halves) {
  for (size_t i = 0; i < n / 2; ++i) {
    halves[i] = pairs[2 * i];
    halves[n / 2 + i] = pairs[2 * i + 1];
  }
}

}  // namespace

// The queries, keys and values of a layer from h.
void TransformerModel::project_latent(Part& p, size_t layer) {
  const LatentWeights& w = weights_.layers[layer].latent;
  const LatentBuffers& b = acts_.latent;
  const bool q_latent = config_.latent.q_rank != 0;

  if (q_latent) {
    linear(p.worker, linear_, w.wq_a, p.own.h, b.q_a.data, b.q_a.stride);             // [T, q_rank]
  } else {
    linear(p.worker, linear_, weights_.layers[layer].wq, p.own.h, b.q.data, b.q.stride);
  }
  linear(p.worker, linear_, w.wkv_a, p.own.h, b.kv_a.data, b.kv_a.stride);            // [T, kv_rank + rope_dim]
  p.worker.barrier();
  if (q_latent) norm_latent(p, b.q_a, w.bq_a, w.q_a_norm, p.own.q_latent);
  norm_latent(p, b.kv_a, w.bkv_a, w.kv_a_norm, p.own.kv_latent);
  p.meet();
  if (q_latent) linear(p.worker, linear_, w.wq_b, p.own.q_latent, b.q.data, b.q.stride);   // [T, H key_dim]
  linear(p.worker, linear_, w.wkv_b, p.own.kv_latent, b.kv.data, b.kv.stride);        // [T, H (nope_dim + value_dim)]
  p.worker.barrier();
  expand_queries(p, layer);
  store_expanded(p, layer);
}

// `to` = norm(from + bias) of as many columns as the norm has, and in int8.
void TransformerModel::norm_latent(const Part& p, Rows from, WeightVector bias, WeightVector weight, LinearInput& to) {
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    float* row = to.values + i * to.stride;
    std::copy_n(from.row(i), weight.size(), row);
    add_bias(bias, 0, weight.size(), row);
    kernels_->rms_norm(row, weight.data(), kLatentNormEps, weight.size(), row);
  }
  quantize(p, to);
}

void TransformerModel::expand_queries(const Part& p, size_t layer) {
  const LatentAttention& shape = config_.latent;
  const Range items = p.worker.share(p.pass.n_rows() * config_.n_heads);
  for (size_t item = items.begin; item < items.end; ++item) {
    const size_t row = item / config_.n_heads, head = item % config_.n_heads;
    const float* from = acts_.latent.q.row(row) + head * shape.key_dim();
    float* q = acts_.q.row(row) + head * config_.latent.head_dim();
    std::copy_n(from, shape.nope_dim, q);
    turn_latent(p, layer, row, from + shape.nope_dim, q + shape.nope_dim);
    std::fill(q + shape.key_dim(), q + config_.latent.head_dim(), 0.0f);
  }
}

void TransformerModel::turn_latent(const Part& p, size_t layer, size_t row, const float* pairs, float* turned) {
  const size_t rope = config_.layers[layer].rope;
  copy_pairs_as_halves(pairs, config_.latent.rope_dim, turned);
  if (rope != kNoRope) kernels_->rope(turned, p.own.cos_sin[rope].row(row), config_.latent.rope_dim);
}

// Each head's key and value, by the worker that stores them.
void TransformerModel::store_expanded(const Part& p, size_t layer) {
  const LatentAttention& shape = config_.latent;
  const WeightVector bias = weights_.layers[layer].latent.bkv_a;
  size_t first_row = 0;
  for (const SequenceChunk& chunk : p.pass.batch) {
    auto finish = [&](size_t i, size_t head) {
      const size_t row = first_row + i;
      const float* from = acts_.latent.kv.row(row) + head * (shape.nope_dim + shape.value_dim);
      float* k = acts_.k.row(row) + head * config_.latent.head_dim();
      float* v = acts_.v.row(row) + head * config_.latent.head_dim();
      std::copy_n(from, shape.nope_dim, k);
      turn_key(p, layer, row, bias, k + shape.nope_dim);
      std::fill(k + shape.key_dim(), k + config_.latent.head_dim(), 0.0f);
      std::copy_n(from + shape.nope_dim, shape.value_dim, v);
      std::fill(v + shape.value_dim, v + config_.latent.head_dim(), 0.0f);
    };
    chunk.entry->append(p.worker, *kernels_, layer, acts_.k.row(first_row), acts_.v.row(first_row), acts_.k.stride,
                        chunk.tokens.size(), finish);
    first_row += chunk.tokens.size();
  }
}

// The part of a key that all heads share. kv_a is everybody's: a bias is added to a copy.
void TransformerModel::turn_key(const Part& p, size_t layer, size_t row, WeightVector bias, float* turned) {
  const size_t first = config_.latent.kv_rank, n = config_.latent.rope_dim;
  const float* pairs = acts_.latent.kv_a.row(row) + first;
  if (bias.empty()) return turn_latent(p, layer, row, pairs, turned);
  float sum[kMaxLatentRopeDim];
  for (size_t i = 0; i < n; ++i) sum[i] = pairs[i] + bias[first + i];
  turn_latent(p, layer, row, sum, turned);
}

// The input of wo has heads as wide as values are.
void TransformerModel::drop_padding(const Part& p) {
  const size_t n = config_.latent.value_dim;
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    float* to = p.own.attended.values + i * p.own.attended.stride;
    for (size_t head = 0; head < config_.n_heads; ++head) {
      std::copy_n(acts_.attended.row(i) + head * config_.latent.head_dim(), n, to + head * n);
    }
  }
}

}  // namespace ibid
