// Attention as the paper writes it (Vaswani et al. 2017), in double, one query at a time.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace ibid {

struct NaiveAttention {
  double scale = 1;
  double softcap = 0;
  bool has_sink = false;
  double sink = 0;
};

// keys(p), values(p): head_dim numbers of position p. Positions [begin, end) are seen.
template <typename Keys, typename Values>
std::vector<double> naive_attention(const NaiveAttention& rule, const float* q, size_t head_dim, size_t begin,
                                    size_t end, Keys&& keys, Values&& values) {
  std::vector<double> scores;
  double largest = rule.has_sink ? rule.sink : -INFINITY;
  for (size_t p = begin; p < end; ++p) {
    double s = 0;
    for (size_t d = 0; d < head_dim; ++d) s += double{q[d]} * static_cast<double>(keys(p)[d]);
    s *= rule.scale;
    if (rule.softcap != 0) s = rule.softcap * std::tanh(s / rule.softcap);
    scores.push_back(s);
    largest = std::max(largest, s);
  }
  double sum = rule.has_sink ? std::exp(rule.sink - largest) : 0;
  for (double& s : scores) sum += s = std::exp(s - largest);
  std::vector<double> out(head_dim);
  for (size_t p = begin; p < end; ++p) {
    const double weight = scores[p - begin] / sum;
    for (size_t d = 0; d < head_dim; ++d) out[d] += weight * static_cast<double>(values(p)[d]);
  }
  return out;
}

}  // namespace ibid
