#include "tests/oracle/streams.h"

#include <algorithm>
#include <cmath>

#include "tests/oracle/norms.h"

namespace ibid::oracle {

namespace {

using enum TensorRole;

// Returns y with each row scaled to the magnitude of that row of x.
Matrix as_large_as(const Matrix& x, Matrix y) {
  for (Index i = 0; i < y.rows(); ++i) {
    const double square = std::max(y.row(i).array().square().mean(), 1e-5);
    y.row(i) *= std::sqrt(x.row(i).array().square().mean() / square);
  }
  return y;
}

// c = tanh(W_router (norm(x) / D))
Matrix coefficients(const Model& model, size_t layer, const Matrix& x) {
  const Vector weight = model.weights.norm(kAltUpRouterNorm, layer);
  const Matrix h = rms_norm(x, weight, static_cast<double>(model.config.norm_eps)) / static_cast<double>(x.cols());
  return linear(h, model.weights.matrix(kAltUpRouter, layer)).array().tanh();
}

}  // namespace

Streams spread(const Model& model, const Matrix& x) {
  Streams streams{x};
  for (size_t s = 1; s < model.config.altup.n_streams; ++s) {
    streams.push_back(as_large_as(x, linear(x, model.weights.matrix(kSpread, 0, s - 1))));
  }
  return streams;
}

// p_i = x_i + sum over j of (W_predict c)[i n + j] x_j
Streams predict(const Model& model, size_t layer, const Streams& streams) {
  const size_t n = streams.size();
  const Matrix c = coefficients(model, layer, streams[model.config.altup.active]);
  const Matrix shares = linear(c, model.weights.matrix(kAltUpPredict, layer));  // [T, n n]
  Streams predicted = streams;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      predicted[i] += shares.col(static_cast<Index>(i * n + j)).asDiagonal() * streams[j];
    }
  }
  return predicted;
}

// x_i = p_i + (y - p_a) (1 + (W_correct c)[i])
Streams correct(const Model& model, size_t layer, const Streams& predicted, const Matrix& computed) {
  const Matrix c = coefficients(model, layer, computed);
  const Matrix shares = linear(c, model.weights.matrix(kAltUpCorrect, layer));  // [T, n]
  const Matrix change = computed - predicted[model.config.altup.active];
  Streams corrected = predicted;
  for (size_t i = 0; i < corrected.size(); ++i) {
    const Vector factor = shares.col(static_cast<Index>(i)).array() + 1;
    corrected[i] += factor.asDiagonal() * change;
  }
  return corrected;
}

Matrix gather(const Model& model, const Streams& streams) {
  Matrix sum = streams[0];
  for (size_t s = 1; s < streams.size(); ++s) {
    sum += as_large_as(streams[0], linear(streams[s], model.weights.matrix(kGather, 0, s - 1)));
  }
  return sum / static_cast<double>(streams.size());
}

}  // namespace ibid::oracle
