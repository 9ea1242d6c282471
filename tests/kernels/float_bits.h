// For tests that compare kernel tables bit for bit: the instruction sets of this machine, floats from a fixed sequence,
// memcmp with a message.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "kernels/ops/dispatch.h"

namespace ibid {

// The vector instruction sets of this machine, to be compared with ref.
inline std::vector<Isa> vector_isas() {
  std::vector<Isa> isas;
  for (Isa isa : {Isa::kAvx2, Isa::kAvxVnni, Isa::kAvx512, Isa::kAmx}) {
    if (isa_supported(isa)) isas.push_back(isa);
  }
  return isas;
}

// Uniform numbers in [low, high), the same in every run (a 64-bit linear congruential generator).
class FloatSequence {
 public:
  explicit FloatSequence(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}

  uint64_t next_bits() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return state_ >> 32;
  }
  float next(float low = -1.0f, float high = 1.0f) {
    return low + (high - low) * static_cast<float>(next_bits() >> 8) / 16777216.0f;
  }
  std::vector<float> vector(size_t n, float low = -1.0f, float high = 1.0f) {
    std::vector<float> values(n);
    for (float& value : values) value = next(low, high);
    return values;
  }

 private:
  uint64_t state_;
};

inline ::testing::AssertionResult same_bits(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return ::testing::AssertionFailure() << a.size() << " vs " << b.size();
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0) {
      return ::testing::AssertionFailure() << "at " << i << ": " << a[i] << " vs " << b[i];
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace ibid
