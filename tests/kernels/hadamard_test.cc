#include "kernels/layout/hadamard.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

#include "tests/kernels/float_bits.h"

namespace ibid {
namespace {

constexpr size_t kHeadDims[] = {1, 2, 3, 8, 15, 16, 24, 40, 64, 80, 96, 100, 112, 128, 192, 256, 512, 1024};

std::vector<float> transformed(const Kernels& kernels, std::vector<float> x) {
  kernels.hadamard(x.data(), x.size());
  return x;
}

TEST(Hadamard, TransformMatchesTheHadamardMatrix) {
  FloatSequence sequence(1);
  for (const size_t n : kHeadDims) {
    const std::vector<float> x = sequence.vector(n, -2, 2);
    const std::vector<float> got = transformed(kernels_for(Isa::kRef), x);
    for (size_t begin = 0; begin < n; begin += hadamard_block(n - begin)) {
      const size_t block = std::bit_floor(n - begin);
      ASSERT_EQ(hadamard_block(n - begin), block);
      for (size_t row = 0; row < block; ++row) {
        double sum = 0;  // the sign is (-1)^n, n being the number of bits set in both row and column (Sylvester 1867)
        for (size_t column = 0; column < block; ++column) {
          const double term = double{x[begin + column]};
          sum += std::popcount(row & column) % 2 == 0 ? term : -term;
        }
        ASSERT_NEAR(got[begin + row], sum / std::sqrt(static_cast<double>(block)), 4e-6) << n << ", " << row;
      }
    }
  }
}

TEST(Hadamard, TransformAppliedTwiceGivesTheInput) {
  FloatSequence sequence(2);
  for (const size_t n : kHeadDims) {
    const std::vector<float> x = sequence.vector(n, -2, 2);
    for (const Kernels* kernels : {&kernels_for(Isa::kRef), &reference_kernels()}) {
      const std::vector<float> again = transformed(*kernels, transformed(*kernels, x));
      for (size_t d = 0; d < n; ++d) ASSERT_NEAR(again[d], x[d], 3e-6) << n << ", " << d;
    }
  }
}

// One large dimension is spread over all, which is why codes of few bits suffice.
TEST(Hadamard, TransformSpreadsOneLargeNumberOverItsBlock) {
  std::vector<float> x(64);
  x[17] = 80.0f;
  for (const float y : transformed(kernels_for(Isa::kRef), x)) EXPECT_EQ(std::fabs(y), 10.0f);
}

class HadamardIsas : public ::testing::TestWithParam<Isa> {};

// Numbers of every magnitude, at odd addresses; memory after the head does not change.
TEST_P(HadamardIsas, TransformGivesTheSameBitsAsRef) {
  FloatSequence sequence(3);
  for (size_t n = 1; n <= 300; ++n) {
    for (const float range : {2.0f, 1e-38f, 1.5e38f, 0.0f}) {
      std::vector<float> want = sequence.vector(n + 20);
      for (float& x : want) x *= range;
      want[n / 2] = -0.0f;
      std::vector<float> got = want;
      kernels_for(Isa::kRef).hadamard(&want[1], n);
      kernels_for(GetParam()).hadamard(&got[1], n);
      ASSERT_TRUE(same_bits(got, want)) << n << ", " << range;
      for (const float y : want) ASSERT_TRUE(std::isfinite(y));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, HadamardIsas, ::testing::ValuesIn(vector_isas()),
                         [](const auto& isa) { return std::string(isa_name(isa.param)); });

}  // namespace
}  // namespace ibid
