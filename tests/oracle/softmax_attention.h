// Scaled dot-product attention of one query (Vaswani et al. 2017), with later additions: soft caps (Gemma 2) and sinks
// (Xiao et al. 2023; as in gpt-oss: one more score, without a value).
#pragma once

#include <optional>

#include "tests/oracle/numbers.h"

namespace ibid::oracle {

struct Scores {
  double scale = 1;
  double softcap = 0;  // scores s become cap tanh(s / cap); 0: no cap
  std::optional<double> sink;
};

// The sum of the values, weighted by the softmax of the scores. keys, values: one row per visible position.
Vector attend(const Scores& rule, const Vector& query, const Matrix& keys, const Matrix& values);

}  // namespace ibid::oracle
