// The notes of one pass over the rows of a tensor: enough to say what is odd, in memory that does not grow with the
// tensor. All are integers except the sum of squares, so parts of a tensor may be added in any order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ibid {

// Squares of finite values; counts of the others.
struct ValueSums {
  double squares = 0;
  uint64_t n_nan = 0, n_infinite = 0;
  bool all_zero = true;

  void add(std::span<const float> values);
};

// Rows by the power of two of their RMS.
class RmsHistogram {
 public:
  void add(double rms);
  void add(const RmsHistogram& other);
  // Rows more than `powers` powers of two away from the median row.
  uint64_t n_far(int powers) const;

 private:
  static constexpr int kSmallest = -64;
  static constexpr size_t kBins = 128;
  std::array<uint64_t, kBins> n_{};
};

}  // namespace ibid
