// Hadamard transform of a head. Rotated rows (KvHeadBlock) are stored transformed, so that few bits lose little
// precision: one large dimension of a key would use the whole range of the row's codes, but the transform spreads its
// value evenly over all dimensions. Queries are transformed like keys, so scores do not change; a sum of transformed
// values is transformed back.
//
// A head is divided into blocks, each the largest power of two that fits into the rest: 64 is one block, 80 is two, of
// 64 and 16. A block of n numbers is clamped to +-kHadamardLimit, passes log2(n) butterfly stages,
//   half = 1, 2, 4 ... n / 2:  (x[i], x[i + half]) becomes (x[i] + x[i + half], x[i] - x[i + half]),
// and is finally multiplied by 1 / sqrt(n). The matrix is its own inverse. Source: Ashkboos et al. 2024 (QuaRot); Fino
// & Algazi 1976 (the butterflies).
//
// Pure arithmetic. Always inlined, because it is compiled for several instruction sets.
#pragma once

#include <cstddef>

namespace ibid {

// Sums of 1024 numbers up to this limit are finite. Values of real models are far below it.
inline constexpr float kHadamardLimit = 0x1p100f;

// Returns the size of the first of the blocks into which n numbers are divided. REQUIRES: n > 0.
[[gnu::always_inline]] inline size_t hadamard_block(size_t n) { return size_t{1} << (63 - __builtin_clzll(n)); }

// Returns 1 / sqrt(block): a power of two, or a power of two times sqrt(1/2), rounded once.
[[gnu::always_inline]] inline float hadamard_factor(size_t block) {
  float factor = 1.0f;
  for (; block >= 4; block /= 4) factor *= 0.5f;
  return block == 2 ? factor * 0.70710678f : factor;
}

// Transforms one block in place.
template <typename Number>
[[gnu::always_inline]] inline void transform_block(Number* x, size_t block) {
  constexpr Number kLimit{kHadamardLimit};
  for (size_t i = 0; i < block; ++i) x[i] = x[i] < -kLimit ? -kLimit : x[i] > kLimit ? kLimit : x[i];
  for (size_t half = 1; half < block; half *= 2) {
    for (size_t first = 0; first < block; first += 2 * half) {
      for (size_t i = first; i < first + half; ++i) {
        const Number a = x[i], b = x[i + half];
        x[i] = a + b;
        x[i + half] = a - b;
      }
    }
  }
  const auto factor = static_cast<Number>(hadamard_factor(block));
  for (size_t i = 0; i < block; ++i) x[i] = x[i] * factor;
}

}  // namespace ibid
