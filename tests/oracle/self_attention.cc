#include "tests/oracle/self_attention.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "tests/oracle/activations.h"
#include "tests/oracle/norms.h"
#include "tests/oracle/softmax_attention.h"

namespace ibid::oracle {

namespace {

using enum TensorRole;

Index head_dim_of(const Model& model, size_t layer) { return static_cast<Index>(model.config.layers[layer].head_dim); }

// Applies norm and rope to each head of queries or keys.
void norm_and_rotate(const Model& model, size_t layer, const Vector& weight, Matrix& x) {
  const ModelConfig& c = model.config;
  const size_t rope = c.layers[layer].rope;
  const Index d = head_dim_of(model, layer);
  if (c.qk_norm == QkNorm::kWhole) x = norm(c, x, weight);
  const auto norm_head = [&](Index head) {
    if (c.qk_norm == QkNorm::kPerHead) x.middleCols(head * d, d) = norm(c, x.middleCols(head * d, d), weight);
    if (c.qk_norm == QkNorm::kEachHead) {
      x.middleCols(head * d, d) = norm(c, x.middleCols(head * d, d), weight.segment(head * d, d));
    }
    if (c.qk_norm == QkNorm::kUnweighted && rope != kNoRope) {
      x.middleCols(head * d, d) = norm(c, x.middleCols(head * d, d), {});
    }
  };
  for (Index head = 0; head < x.cols() / d; ++head) {
    if (!c.qk_norm_after_rope) norm_head(head);
    if (rope != kNoRope) {
      rotate(model.ropes[rope], c.adjacent_pairs ? Pairs::kNeighbours : Pairs::kHalves, x.middleCols(head * d, d));
    }
    if (c.qk_norm_after_rope) norm_head(head);
  }
}

// Returns a bias, divided by the factors of h, because these are multiplied into the factors of scores and outputs.
Vector bias_of(const Model& model, TensorRole role, size_t layer) {
  const Vector bias = model.weights.vector(role, layer);
  return bias.size() == 0 ? bias : Vector(bias / static_cast<double>(model.config.attention_input_scale));
}

// Zamba2 2024: y += A B h
void add_adapted(const Model& model, size_t layer, size_t adapter, const Matrix& h, std::array<TensorRole, 2> roles,
                 Matrix& y) {
  if (!model.config.common.adapts_attention) return;
  const FileTensors& w = model.weights;
  y += linear(linear(h, w.matrix(roles[0], layer, adapter)), w.matrix(roles[1], layer, adapter));
}

Matrix queries_of(const Model& model, size_t layer, const Matrix& h, size_t adapter) {
  const FileTensors& w = model.weights;
  Matrix q = linear(h, w.matrix(kWq, layer), bias_of(model, kBq, layer));
  add_adapted(model, layer, adapter, h, {kAdapterQLow, kAdapterQ}, q);
  const bool weighted = model.config.qk_norm != QkNorm::kNone && model.config.qk_norm != QkNorm::kUnweighted;
  norm_and_rotate(model, layer, weighted ? w.norm(kQNorm, layer) : Vector(), q);
  return q;
}

KeysAndValues keys_and_values_of(const Model& model, size_t layer, const Matrix& h, size_t adapter) {
  const ModelConfig& c = model.config;
  const FileTensors& w = model.weights;
  const Index d = head_dim_of(model, layer);
  KeysAndValues kv;
  kv.keys = linear(h, w.matrix(kWk, layer), bias_of(model, kBk, layer));
  const bool value_is_key = c.layers[layer].value_is_key;
  kv.values = linear(h, w.matrix(value_is_key ? kWk : kWv, layer), bias_of(model, value_is_key ? kBk : kBv, layer));
  add_adapted(model, layer, adapter, h, {kAdapterKLow, kAdapterK}, kv.keys);
  add_adapted(model, layer, adapter, h, {kAdapterVLow, kAdapterV}, kv.values);
  if (c.value_norm) {
    for (Index at = 0; at < kv.values.cols(); at += d) {
      kv.values.middleCols(at, d) = rms_norm(kv.values.middleCols(at, d), {}, static_cast<double>(c.norm_eps));
    }
  }
  const bool weighted = c.qk_norm != QkNorm::kNone && c.qk_norm != QkNorm::kUnweighted;
  norm_and_rotate(model, layer, weighted ? w.norm(kKNorm, layer) : Vector(), kv.keys);
  return kv;
}

// Scales queries by position (Llama 4 and Ministral 3).
void grow(const Model& model, size_t layer, Matrix& queries) {
  const ModelConfig& c = model.config;
  if (c.query_growth == 0 || (c.query_growth_without_rope && c.layers[layer].rope != kNoRope)) return;
  for (Index p = 0; p < queries.rows(); ++p) {
    const size_t steps = (static_cast<size_t>(p) + c.query_growth_shift) / c.query_growth_step;
    queries.row(p) *= 1 + c.query_growth * std::log(1 + static_cast<double>(steps));
  }
}

// Returns the first position that position p sees; it sees all positions from there to itself.
Index first_seen(const ModelConfig& config, size_t layer, Index p) {
  const auto window = static_cast<Index>(config.layers[layer].window);
  const auto chunk = static_cast<Index>(config.attention_chunk);
  Index first = 0;
  if (window != 0) first = std::max(first, p - window + 1);
  if (config.layers[layer].chunked) first = std::max(first, p / chunk * chunk);
  return first;
}

// Computes attention of every head and row. Several query heads share one KV head.
Matrix attend_all(const Model& model, size_t layer, const Matrix& queries, const KeysAndValues& kv, Index n_kv_heads) {
  const ModelConfig& c = model.config;
  const auto n_heads = static_cast<Index>(c.n_heads);
  const Index key_dim = kv.keys.cols() / n_kv_heads, value_dim = kv.values.cols() / n_kv_heads;
  const Vector sinks = model.weights.vector(kSinks, layer);
  Matrix out(queries.rows(), n_heads * value_dim);
  for (Index head = 0; head < n_heads; ++head) {
    const double depth = c.scale_by_depth ? static_cast<double>(layer + 1) : 1;
    Scores rule{static_cast<double>(c.attention_scale) / depth, static_cast<double>(c.attention_softcap), std::nullopt};
    if (sinks.size() > 0) rule.sink = sinks[head];
    const Index shared = head / (n_heads / n_kv_heads);
    const Matrix keys = kv.keys.middleCols(shared * key_dim, key_dim);
    const Matrix values = kv.values.middleCols(shared * value_dim, value_dim);
    for (Index p = 0; p < queries.rows(); ++p) {
      const Index first = first_seen(c, layer, p), n = p + 1 - first;
      out.row(p).segment(head * value_dim, value_dim) = attend(rule, queries.row(p).segment(head * key_dim, key_dim),
                                                               keys.middleRows(first, n), values.middleRows(first, n));
    }
  }
  return out;
}

}  // namespace

Matrix self_attention(const Model& model, size_t layer, const Matrix& h, std::vector<KeysAndValues>& cache,
                      size_t adapter) {
  const ModelConfig& c = model.config;
  const FileTensors& w = model.weights;
  Matrix queries, attended;
  KeysAndValues& kv = cache[c.layers[layer].kv_layer];
  if (c.latent.used()) {
    Expanded expanded = expand_latents(model, layer, h);
    queries = std::move(expanded.queries);
    kv = std::move(expanded.kv);
    attended = attend_all(model, layer, queries, kv, static_cast<Index>(c.n_heads));
  } else {
    queries = queries_of(model, layer, h, adapter);
    grow(model, layer, queries);
    if (c.layers[layer].writes_kv) kv = keys_and_values_of(model, layer, h, adapter);
    attended = attend_all(model, layer, queries, kv, static_cast<Index>(c.layers[layer].n_kv_heads));
  }
  if (c.attention_gate) {
    const Matrix gate = linear(h, w.matrix(kWAttnGate, layer), w.vector(kBAttnGate, layer));
    attended.array() *= gate.unaryExpr([](double x) { return sigmoid(x); }).array();
  }
  return linear(attended, w.matrix(kWo, layer), bias_of(model, kBo, layer));
}

}  // namespace ibid::oracle
