// Latent attention (DeepSeek-V2 2024, section 2.1), expanded to the queries, keys and values of each head.
#include "tests/oracle/norms.h"
#include "tests/oracle/self_attention.h"

namespace ibid::oracle {

namespace {

using enum TensorRole;

constexpr double kEps = 1e-6;  // for the norms of latents: the class default in transformers

Matrix latent(const Matrix& x, Index rank, const Vector& weight) { return rms_norm(x.leftCols(rank), weight, kEps); }

}  // namespace

Expanded expand_latents(const Model& model, size_t layer, const Matrix& h) {
  const ModelConfig& c = model.config;
  const FileTensors& w = model.weights;
  const auto n_heads = static_cast<Index>(c.n_heads), rank = static_cast<Index>(c.latent.kv_rank);
  const auto nope = static_cast<Index>(c.latent.nope_dim), turned = static_cast<Index>(c.latent.rope_dim);
  const auto value = static_cast<Index>(c.latent.value_dim);
  const Index key = nope + turned;
  const auto rotate_part = [&](Eigen::Ref<Matrix, 0, Eigen::OuterStride<>> part) {
    const size_t rope = c.layers[layer].rope;
    const Pairs pairs = c.latent.adjacent_pairs ? Pairs::kNeighbours : Pairs::kHalves;
    if (rope != kNoRope) rotate(model.ropes[rope], pairs, part);
  };

  Expanded e;
  if (c.latent.q_rank == 0) {
    e.queries = linear(h, w.matrix(kWq, layer));
  } else {
    const Matrix low = linear(h, w.matrix(kWqA, layer), w.vector(kBqA, layer));
    e.queries = linear(latent(low, low.cols(), w.vector(kQANorm, layer)), w.matrix(kWqB, layer));
  }
  const Matrix low = linear(h, w.matrix(kWkvA, layer), w.vector(kBkvA, layer));  // [T, kv_rank + rope_dim]
  const Matrix kv = linear(latent(low, rank, w.vector(kKvANorm, layer)), w.matrix(kWkvB, layer));
  Matrix shared = low.rightCols(turned);  // the part of the key that all heads share
  rotate_part(shared);
  e.kv.keys.resize(h.rows(), n_heads * key);
  e.kv.values.resize(h.rows(), n_heads * value);
  for (Index head = 0; head < n_heads; ++head) {
    rotate_part(e.queries.middleCols(head * key + nope, turned));
    e.kv.keys.middleCols(head * key, nope) = kv.middleCols(head * (nope + value), nope);
    e.kv.keys.middleCols(head * key + nope, turned) = shared;
    e.kv.values.middleCols(head * value, value) = kv.middleCols(head * (nope + value) + nope, value);
  }
  return e;
}

}  // namespace ibid::oracle
