#include "apps/inspect/row_sums.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace ibid {

namespace {

constexpr size_t kLanes = 16;  // sums side by side, which a compiler keeps in registers

// Not finite where a value is not, or where a square is beyond a float.
float sum_of_squares(std::span<const float> values) {
  std::array<float, kLanes> sums{};
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += values[i + lane] * values[i + lane];
  }
  float sum = 0;
  for (; i < values.size(); ++i) sum += values[i] * values[i];
  for (const float lane : sums) sum += lane;
  return sum;
}

}  // namespace

void ValueSums::add(std::span<const float> values) {
  constexpr float kSmallest = 1e-30f;  // below it squares may have vanished
  const float sum = sum_of_squares(values);
  if (std::isfinite(sum) && sum > kSmallest) {
    squares += static_cast<double>(sum);
    all_zero = false;
    return;
  }
  for (const float value : values) {
    n_nan += std::isnan(value) ? 1 : 0;
    n_infinite += std::isinf(value) ? 1 : 0;
    if (std::isfinite(value)) squares += static_cast<double>(value) * static_cast<double>(value);
    all_zero = all_zero && value == 0;
  }
}

void RmsHistogram::add(double rms) {
  const int power = std::clamp(std::ilogb(rms), kSmallest, kSmallest + static_cast<int>(kBins) - 1);
  ++n_[static_cast<size_t>(power - kSmallest)];
}

void RmsHistogram::add(const RmsHistogram& other) {
  for (size_t i = 0; i < kBins; ++i) n_[i] += other.n_[i];
}

uint64_t RmsHistogram::n_far(int powers) const {
  uint64_t all = 0, below = 0;
  for (const uint64_t n : n_) all += n;
  int median = 0;
  while (median + 1 < static_cast<int>(kBins) && 2 * (below + n_[static_cast<size_t>(median)]) < all) {
    below += n_[static_cast<size_t>(median++)];
  }
  uint64_t far = 0;
  for (int i = 0; i < static_cast<int>(kBins); ++i) {
    if (std::abs(i - median) > powers) far += n_[static_cast<size_t>(i)];
  }
  return far;
}

}  // namespace ibid
