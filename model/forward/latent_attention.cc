// Latent attention in the forward pass: see latent_attention.h.
#include "model/forward/latent_attention.h"

#include <algorithm>

#include "model/forward/architecture_steps.h"
#include "model/forward/row_steps.h"

namespace ibid::forward {

namespace {

// Pairs that lie side by side become halves, as Kernels::rope turns them. Queries and keys alike: their products stay
// what they were.
void copy_pairs_as_halves(const float* pairs, size_t n, float* halves) {
  for (size_t i = 0; i < n / 2; ++i) {
    halves[i] = pairs[2 * i];
    halves[n / 2 + i] = pairs[2 * i + 1];
  }
}

void turn_latent(const PassPart& p, size_t layer, size_t row, const float* pairs, float* turned) {
  const PassModel& m = p.model;
  const size_t rope = m.config.layers[layer].rope;
  copy_pairs_as_halves(pairs, m.config.latent.rope_dim, turned);
  if (rope != kNoRope) m.kernels.rope(turned, p.buffers.cos_sin[rope].row(row), m.config.latent.rope_dim);
}

// The part of a key that all heads share. kv_a is everybody's: a bias is added to a copy.
void turn_key(const PassPart& p, size_t layer, size_t row, WeightVector bias, float* turned) {
  const PassModel& m = p.model;
  const size_t first = m.config.latent.kv_rank, n = m.config.latent.rope_dim;
  const float* pairs = m.acts.latent.kv_a.row(row) + first;
  if (bias.empty()) return turn_latent(p, layer, row, pairs, turned);
  float sum[kMaxLatentRopeDim];
  for (size_t i = 0; i < n; ++i) sum[i] = pairs[i] + bias[first + i];
  turn_latent(p, layer, row, sum, turned);
}

// `to` = norm(from + bias) of as many columns as the norm has, and in int8.
void norm_latent(const PassPart& p, Rows from, WeightVector bias, WeightVector weight, LinearInput& to) {
  const PassModel& m = p.model;
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    float* row = to.values + i * to.stride;
    std::copy_n(from.row(i), weight.size(), row);
    add_bias(m, bias, 0, weight.size(), row);
    m.kernels.rms_norm(row, weight.data(), kLatentNormEps, weight.size(), row);
  }
  quantize(p, to);
}

void expand_queries(const PassPart& p, size_t layer) {
  const PassModel& m = p.model;
  const LatentAttention& shape = m.config.latent;
  const Range items = p.worker.share(p.pass.n_rows() * m.config.n_heads);
  for (size_t item = items.begin; item < items.end; ++item) {
    const size_t row = item / m.config.n_heads, head = item % m.config.n_heads;
    const float* from = m.acts.latent.q.row(row) + head * shape.key_dim();
    float* q = m.acts.q.row(row) + head * m.config.latent.head_dim();
    std::copy_n(from, shape.nope_dim, q);
    turn_latent(p, layer, row, from + shape.nope_dim, q + shape.nope_dim);
    std::fill(q + shape.key_dim(), q + m.config.latent.head_dim(), 0.0f);
  }
}

// Each head's key and value, by the worker that stores them.
void store_expanded(const PassPart& p, size_t layer) {
  const PassModel& m = p.model;
  const LatentAttention& shape = m.config.latent;
  const WeightVector bias = m.weights.layers[layer].latent.bkv_a;
  size_t first_row = 0;
  for (const SequenceChunk& chunk : p.pass.batch) {
    auto finish = [&](size_t i, size_t head) {
      const size_t row = first_row + i;
      const float* from = m.acts.latent.kv.row(row) + head * (shape.nope_dim + shape.value_dim);
      float* k = m.acts.k.row(row) + head * m.config.latent.head_dim();
      float* v = m.acts.v.row(row) + head * m.config.latent.head_dim();
      std::copy_n(from, shape.nope_dim, k);
      turn_key(p, layer, row, bias, k + shape.nope_dim);
      std::fill(k + shape.key_dim(), k + m.config.latent.head_dim(), 0.0f);
      std::copy_n(from + shape.nope_dim, shape.value_dim, v);
      std::fill(v + shape.value_dim, v + m.config.latent.head_dim(), 0.0f);
    };
    chunk.entry->append(p.worker, m.kernels, m.config.layers[layer].kv_layer, m.acts.k.row(first_row),
                        m.acts.v.row(first_row), m.acts.k.stride, chunk.tokens.size(), finish);
    first_row += chunk.tokens.size();
  }
}

}  // namespace

// The queries, keys and values of a layer from h.
void project_latent(PassPart& p, size_t layer) {
  const PassModel& m = p.model;
  const LatentWeights& w = m.weights.layers[layer].latent;
  const LatentBuffers& b = m.acts.latent;
  const bool q_latent = m.config.latent.q_rank != 0;

  if (q_latent) {
    linear(p, w.wq_a, p.buffers.h, b.q_a);             // [T, q_rank]
  } else {
    linear(p, m.weights.layers[layer].wq, p.buffers.h, b.q);
  }
  linear(p, w.wkv_a, p.buffers.h, b.kv_a);            // [T, kv_rank + rope_dim]
  p.worker.barrier();
  if (q_latent) norm_latent(p, b.q_a, w.bq_a, w.q_a_norm, p.buffers.q_latent);
  norm_latent(p, b.kv_a, w.bkv_a, w.kv_a_norm, p.buffers.kv_latent);
  p.barrier_if_shared();
  if (q_latent) linear(p, w.wq_b, p.buffers.q_latent, b.q);   // [T, H key_dim]
  linear(p, w.wkv_b, p.buffers.kv_latent, b.kv);        // [T, H (nope_dim + value_dim)]
  p.worker.barrier();
  expand_queries(p, layer);
  store_expanded(p, layer);
}

// The input of wo has heads as wide as values are.
void drop_padding(const PassPart& p) {
  const PassModel& m = p.model;
  const size_t n = m.config.latent.value_dim;
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    float* to = p.buffers.attended.values + i * p.buffers.attended.stride;
    for (size_t head = 0; head < m.config.n_heads; ++head) {
      std::copy_n(m.acts.attended.row(i) + head * m.config.latent.head_dim(), n, to + head * n);
    }
  }
}

}  // namespace ibid::forward
