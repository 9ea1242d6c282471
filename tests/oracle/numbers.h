// The types that all parts of the oracle share. The rows of a Matrix are positions, or the outputs of a weight.
#pragma once

#include <Eigen/Dense>

namespace ibid::oracle {

using Index = Eigen::Index;
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Vector = Eigen::Matrix<double, 1, Eigen::Dynamic>;

// y = W x for every row x of `rows`.
inline Matrix linear(const Matrix& rows, const Matrix& w) { return rows * w.transpose(); }

// An empty bias means that the model has none.
inline void add_to_rows(Matrix& rows, const Vector& bias) {
  if (bias.size() > 0) rows.rowwise() += bias;
}
inline Matrix linear(const Matrix& rows, const Matrix& w, const Vector& bias) {
  Matrix y = linear(rows, w);
  add_to_rows(y, bias);
  return y;
}

}  // namespace ibid::oracle
