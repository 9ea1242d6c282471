#include "tests/oracle/mlp.h"

#include <cmath>

#include "tests/oracle/activations.h"
#include "tests/oracle/norms.h"

namespace ibid::oracle {

using enum TensorRole;

Matrix mlp(const Model& model, size_t layer, const Matrix& h) {
  const LayerConfig& of_layer = model.config.layers[layer];
  const FileTensors& w = model.weights;
  const Matrix up = linear(h, w.matrix(kWUp, layer), w.vector(kBUp, layer));
  Matrix gated = up;
  if (model.config.gated) {
    Matrix gate = linear(h, w.matrix(kWGate, layer), w.vector(kBGate, layer));
    for (Index i = 0; of_layer.gate_cutoff && i < gate.rows(); ++i) {
      const double mean = gate.row(i).mean();
      const double deviation = std::sqrt((gate.row(i).array() - mean).square().mean());
      const double cutoff = mean + deviation * static_cast<double>(*of_layer.gate_cutoff);
      gate.row(i) = (gate.row(i).array() - cutoff).max(0);
    }
    gate *= static_cast<double>(model.config.gate_scale);
    gated.array() *= activate(of_layer.activation, gate).array();
  } else {
    gated = activate(of_layer.activation, up);
  }
  return linear(gated, w.matrix(kWDown, layer), w.vector(kBDown, layer));
}

Matrix mlp_beside_experts(const Model& model, size_t layer, const Matrix& x, const Matrix& h) {
  const ModelConfig& c = model.config;
  const FileTensors& w = model.weights;
  const Matrix router_h = norm(c, x, w.vector(kRouterScale, layer)) / std::sqrt(static_cast<double>(c.dim));
  const Matrix mixed = experts(model, layer, norm(c, x, w.norm(kMoeNorm, layer)), router_h);
  return norm(c, mlp(model, layer, h), w.norm(kMlpPostNorm, layer)) + norm(c, mixed, w.norm(kMoePostNorm, layer));
}

}  // namespace ibid::oracle
