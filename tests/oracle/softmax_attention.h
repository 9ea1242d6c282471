// Scaled dot-product attention of one query (Vaswani et al. 2017), with what was added to it since: soft caps
// (Gemma 2) and sinks (Xiao et al. 2023; as gpt-oss has them, one more score that has no value).
#pragma once

#include <optional>

#include "tests/oracle/numbers.h"

namespace ibid::oracle {

struct Scores {
  double scale = 1;
  double softcap = 0;           // scores s become cap tanh(s / cap); 0: none
  std::optional<double> sink;
};

// The values, weighted by the softmax of the scores. keys, values: a row for each position that is seen.
Vector attend(const Scores& rule, const Vector& query, const Matrix& keys, const Matrix& values);

}  // namespace ibid::oracle
