// Zamba2 2024: attention and an MLP shared by several layers, run before their recurrent mixers.
#include "tests/oracle/activations.h"
#include "tests/oracle/norms.h"
#include "tests/oracle/recurrent.h"
#include "tests/oracle/self_attention.h"

namespace ibid::oracle {

using enum TensorRole;

Matrix common_block(const Model& model, size_t layer, const Matrix& x, const Matrix& embedded) {
  const ModelConfig& c = model.config;
  const FileTensors& w = model.weights;
  const size_t stored = c.layers[layer].common_layer, adapter = c.layers[layer].adapter;
  Matrix wide(x.rows(), 2 * x.cols());
  wide << x, embedded;
  std::vector<KeysAndValues> cache(c.n_layers);
  const Matrix attended = self_attention(model, stored, norm(c, wide, w.vector(kCommonNorm, stored)), cache, adapter);
  const Matrix h = norm(c, attended, w.vector(kCommonFfnNorm, stored));
  const Matrix low = linear(h, w.matrix(kAdapterLow, stored, adapter));
  const Matrix gate_up = linear(h, w.as_stored(kCommonGateUp, stored), w.vector(kBCommonGateUp, stored)) +
                         linear(low, w.matrix(kAdapterGateUp, stored, adapter));
  const Index half = gate_up.cols() / 2;
  const Matrix gated =
      activate(c.layers[layer].activation, gate_up.leftCols(half)).cwiseProduct(gate_up.rightCols(half));
  const Matrix given = linear(gated, w.matrix(kCommonDown, stored), w.vector(kBCommonDown, stored));
  return linear(given, w.matrix(kCommonOut, layer));
}

}  // namespace ibid::oracle
