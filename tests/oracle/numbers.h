// The types that all parts of the oracle share. A Matrix has a position, or an output of a weight, in each row.
#pragma once

#include <Eigen/Dense>

namespace ibid::oracle {

using Index = Eigen::Index;
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Vector = Eigen::Matrix<double, 1, Eigen::Dynamic>;

// y = W x for every row x of `rows`.
inline Matrix linear(const Matrix& rows, const Matrix& w) { return rows * w.transpose(); }

// An empty vector is one that the model does not have.
inline void add_to_rows(Matrix& rows, const Vector& bias) {
  if (bias.size() > 0) rows.rowwise() += bias;
}
inline Matrix linear(const Matrix& rows, const Matrix& w, const Vector& bias) {
  Matrix y = linear(rows, w);
  add_to_rows(y, bias);
  return y;
}

}  // namespace ibid::oracle
