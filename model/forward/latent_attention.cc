// Latent attention in the forward pass: see model/config/latent_attention.h.
#include "model/config/latent_attention.h"

#include <algorithm>

#include "model/forward/architecture_steps.h"
#include "model/forward/row_steps.h"

namespace ibid::forward {

namespace {

// Reorders adjacent pairs to halves, as Kernels::rope rotates them. Queries and keys are reordered alike, so their
// products do not change.
void copy_pairs_as_halves(const float* pairs, size_t n, float* halves) {
  for (size_t i = 0; i < n / 2; ++i) {
    halves[i] = pairs[2 * i];
    halves[n / 2 + i] = pairs[2 * i + 1];
  }
}

void rotate_latent(const PassPart& p, size_t layer, size_t row, const float* pairs, float* rotated) {
  const PassModel& m = p.model;
  const size_t rope = m.config.layers[layer].rope;
  if (m.config.latent.adjacent_pairs) {
    copy_pairs_as_halves(pairs, m.config.latent.rope_dim, rotated);
  } else {
    std::copy_n(pairs, m.config.latent.rope_dim, rotated);
  }
  if (rope != kNoRope) m.kernels.rope(rotated, p.buffers.cos_sin[rope].row(row), m.config.latent.rope_dim);
}

// Rotates the part of a key that all heads share. The bias is added to a copy, because kv_a is a shared buffer.
void rotate_key(const PassPart& p, size_t layer, size_t row, WeightVector bias, float* rotated) {
  const PassModel& m = p.model;
  const size_t first = m.config.latent.kv_rank, n = m.config.latent.rope_dim;
  const float* pairs = m.acts.latent.kv_a.row(row) + first;
  if (bias.empty()) return rotate_latent(p, layer, row, pairs, rotated);
  float sum[kMaxLatentRopeDim];
  for (size_t i = 0; i < n; ++i) sum[i] = pairs[i] + bias[first + i];
  rotate_latent(p, layer, row, sum, rotated);
}

// to = norm(from + bias), over as many columns as the norm has weights.
void norm_latent(const PassPart& p, Rows from, WeightVector bias, WeightVector weight, Rows to) {
  const PassModel& m = p.model;
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    float* row = to.row(i);
    std::copy_n(from.row(i), weight.size(), row);
    add_bias(m, bias, 0, weight.size(), row);
    m.kernels.rms_norm(row, weight.data(), kLatentNormEps, weight.size(), row);
  }
}

// Calls visit(head, panels) for this worker's share of the panels of all heads; each head has `n` panels.
template <typename Visit>
void for_each_head(const PassPart& p, size_t n, Visit&& visit) {
  const Range own = p.worker.share(p.model.config.n_heads * n);
  for (size_t at = own.begin; at < own.end;) {
    const size_t head = at / n, first = at % n, end = std::min(n, first + own.end - at);
    visit(head, Range{first, end});
    at += end - first;
  }
}

// Computes the queries that attention multiplies with cached rows: W_k^T q_nope | rope(q_rope), both padded.
void make_queries(const PassPart& p, size_t layer) {
  const PassModel& m = p.model;
  const LatentAttention& shape = m.config.latent;
  const PackedMatrix& keys = m.weights.layers[layer].latent.wkv_b.keys;
  const Rows q = m.acts.latent.q;
  const size_t n = shape.row_value_dim() / kPanelRows;
  for_each_head(p, n, [&](size_t head, Range panels) {
    LinearInput nope;
    nope.n_rows = p.pass.n_rows();
    nope.n_cols = shape.nope_dim;
    nope.values = q.data + head * shape.key_dim();
    nope.stride = q.stride;
    const Rows to{m.acts.q.data + head * shape.row_dim(), m.acts.q.stride};
    linear_panels(p, panels_of(keys, {head * n, (head + 1) * n}), nope, panels, to);
  });
  const Range items = p.worker.share(p.pass.n_rows() * m.config.n_heads);
  for (size_t item = items.begin; item < items.end; ++item) {
    const size_t row = item / m.config.n_heads, head = item % m.config.n_heads;
    float* to = m.acts.q.row(row) + head * shape.row_dim();
    rotate_latent(p, layer, row, q.row(row) + head * shape.key_dim() + shape.nope_dim, to + shape.row_value_dim());
    std::fill(to + shape.row_value_dim() + shape.rope_dim, to + shape.row_dim(), 0.0f);
  }
}

// Stores the latent row of each position in the KV cache. The worker that stores a row also computes it.
void store_latents(const PassPart& p, size_t layer) {
  const PassModel& m = p.model;
  const LatentAttention& shape = m.config.latent;
  const WeightVector bias = m.weights.layers[layer].latent.bkv_a;
  size_t first_row = 0;
  for (const SequenceChunk& chunk : p.pass.batch) {
    auto finish = [&](size_t i, size_t) {
      const size_t row = first_row + i;
      float* k = m.acts.k.row(row);
      std::copy_n(p.buffers.kv_latent.row(row), shape.kv_rank, k);
      std::fill(k + shape.kv_rank, k + shape.row_value_dim(), 0.0f);
      rotate_key(p, layer, row, bias, k + shape.row_value_dim());
      std::fill(k + shape.row_value_dim() + shape.rope_dim, k + shape.row_dim(), 0.0f);
    };
    const float* rows = m.acts.k.row(first_row);  // a row is both key and value
    chunk.entry->append(p.worker, m.kernels, m.config.layers[layer].kv_layer, rows, rows, m.acts.k.stride,
                        chunk.tokens.size(), finish);
    first_row += chunk.tokens.size();
  }
}

}  // namespace

// Computes the queries of a layer from h, and stores the layer's latent rows in the KV cache.
void project_latent(PassPart& p, size_t layer) {
  const PassModel& m = p.model;
  const LatentWeights& w = m.weights.layers[layer].latent;
  const LatentBuffers& b = m.acts.latent;
  const bool q_latent = m.config.latent.q_rank != 0;

  if (q_latent) {
    linear(p, w.wq_a, p.buffers.h, b.q_a);  // [T, q_rank]
  } else {
    linear(p, m.weights.layers[layer].wq, p.buffers.h, b.q);
  }
  linear(p, w.wkv_a, p.buffers.h, b.kv_a);  // [T, kv_rank + rope_dim]
  p.worker.barrier();
  if (q_latent) {
    LinearInput& latent = p.buffers.q_latent;
    norm_latent(p, b.q_a, w.bq_a, w.q_a_norm, {latent.values, latent.stride});
    quantize(p, latent);
  }
  norm_latent(p, b.kv_a, w.bkv_a, w.kv_a_norm, p.buffers.kv_latent);
  p.barrier_if_shared();
  if (q_latent) {
    linear(p, w.wq_b, p.buffers.q_latent, b.q);  // [T, H key_dim]
    p.worker.barrier();
  }
  make_queries(p, layer);
  store_latents(p, layer);
}

// A head's rows of W_v may begin and end within a panel. So this computes whole panels and copies the head's outputs.
void expand_values(const PassPart& p, size_t layer) {
  const PassModel& m = p.model;
  const LatentAttention& shape = m.config.latent;
  const LatentBuffers& b = m.acts.latent;
  const PackedMatrix& values = m.weights.layers[layer].latent.wkv_b.values;
  const auto worker = static_cast<size_t>(p.worker.index());
  const size_t n_rows = p.pass.n_rows(), n = shape.value_dim;
  const size_t most = (n + kPanelRows - 1) / kPanelRows + (n % kPanelRows == 0 ? 0 : 1);  // maximum panels of a head
  for_each_head(p, most, [&](size_t head, Range panels) {
    const Range columns{head * n, (head + 1) * n};
    const Range of_head{columns.begin / kPanelRows, (columns.end + kPanelRows - 1) / kPanelRows};
    panels.end = std::min(panels.end, of_head.size());
    if (panels.empty()) return;
    LinearInput latents = b.head[worker];
    latents.values = m.acts.attended.data + head * shape.row_dim();
    latents.stride = m.acts.attended.stride;
    latents.set_rows(n_rows);
    for (size_t i = 0; latents.quantized.q != nullptr && i < n_rows; ++i) {
      m.kernels.quantize_blocks(latents.values + i * latents.stride, i, {0, latents.quantized.blocks()},
                                latents.quantized);
    }
    const Rows whole = b.head_values[worker];
    linear_panels(p, panels_of(values, of_head), latents, panels, whole);
    const size_t first = of_head.begin * kPanelRows;
    const size_t begin = std::max(columns.begin, first + panels.begin * kPanelRows);
    const size_t end = std::min(columns.end, first + panels.end * kPanelRows);
    for (size_t i = 0; i < n_rows; ++i) std::copy_n(whole.row(i) + begin - first, end - begin, b.values.row(i) + begin);
  });
  p.worker.barrier();
}

}  // namespace ibid::forward
