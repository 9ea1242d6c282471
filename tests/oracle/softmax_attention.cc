#include "tests/oracle/softmax_attention.h"

#include <algorithm>
#include <cmath>

namespace ibid::oracle {

Vector attend(const Scores& rule, const Vector& query, const Matrix& keys, const Matrix& values) {
  Vector scores = rule.scale * query * keys.transpose();
  if (rule.softcap != 0) scores = rule.softcap * (scores.array() / rule.softcap).tanh();
  double largest = scores.maxCoeff();
  if (rule.sink) largest = std::max(largest, *rule.sink);
  const Vector powers = (scores.array() - largest).exp();
  const double sink = rule.sink ? std::exp(*rule.sink - largest) : 0;
  return powers * values / (powers.sum() + sink);
}

}  // namespace ibid::oracle
