#include "tests/oracle/norms.h"

namespace ibid::oracle {

Matrix rms_norm(const Matrix& x, const Vector& weight, double eps) {
  Matrix y = x;
  for (Index i = 0; i < x.rows(); ++i) {
    y.row(i) = x.row(i) / std::sqrt(x.row(i).array().square().mean() + eps);
    if (weight.size() > 0) y.row(i).array() *= weight.array();
  }
  return y;
}

Matrix layer_norm(const Matrix& x, const Vector& weight, const Vector& bias, double eps) {
  Matrix y = x;
  for (Index i = 0; i < x.rows(); ++i) {
    y.row(i).array() -= x.row(i).mean();
    const double variance = y.row(i).array().square().mean();
    y.row(i) /= std::sqrt(variance + eps);
    if (weight.size() > 0) y.row(i).array() *= weight.array();
  }
  add_to_rows(y, bias);
  return y;
}

Matrix norm(const ModelConfig& config, const Matrix& x, const Vector& weight, const Vector& bias) {
  const auto eps = static_cast<double>(config.norm_eps);
  return config.norm == NormKind::kRms ? rms_norm(x, weight, eps) : layer_norm(x, weight, bias, eps);
}

}  // namespace ibid::oracle
