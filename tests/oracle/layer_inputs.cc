#include "tests/oracle/layer_inputs.h"

#include <cmath>

#include "tests/oracle/activations.h"
#include "tests/oracle/norms.h"

namespace ibid::oracle {

using enum TensorRole;

std::vector<Matrix> layer_inputs(const Model& model, TokenSpan tokens, const Matrix& x) {
  const ModelConfig& c = model.config;
  const auto n = static_cast<Index>(c.layer_inputs.dim);
  const Matrix embed = model.weights.matrix(kLayerEmbed);  // [V', L P]
  const Matrix projected = linear(x, model.weights.matrix(kLayerInputs)) / std::sqrt(static_cast<double>(c.dim));
  const Vector weight = model.weights.norm(kLayerInputNorm);
  std::vector<Matrix> inputs;
  for (size_t l = 0; l < c.n_layers; ++l) {
    const Index first = static_cast<Index>(l) * n;
    Matrix input = norm(c, projected.middleCols(first, n), weight);
    for (Index i = 0; i < input.rows(); ++i) {
      const auto id = static_cast<Index>(tokens[static_cast<size_t>(i)]);
      // Larger token ids, of images and sounds, use row 0.
      input.row(i) += std::sqrt(static_cast<double>(n)) * embed.row(id < embed.rows() ? id : 0).segment(first, n);
    }
    inputs.push_back(input / std::sqrt(2.0));
  }
  return inputs;
}

Matrix from_layer_input(const Model& model, size_t layer, const Matrix& x, const Matrix& input) {
  const FileTensors& w = model.weights;
  const Matrix gate = activate(model.config.layers[layer].activation, linear(x, w.matrix(kLayerGate, layer)));
  const Matrix given = linear(gate.cwiseProduct(input), w.matrix(kLayerOut, layer));
  return norm(model.config, given, w.norm(kLayerPostNorm, layer));
}

}  // namespace ibid::oracle
