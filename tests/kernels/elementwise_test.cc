#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/ops/dispatch.h"
#include "tests/kernels/float_bits.h"

namespace ibid {
namespace {

const std::vector<size_t>& lengths() {
  static const std::vector<size_t> lengths = [] {
    std::vector<size_t> all;
    for (size_t n = 1; n <= 2 * 16 + 1; ++n) all.push_back(n);
    for (size_t n : {48u, 63u, 64u, 100u, 576u, 577u, 1536u, 2048u}) all.push_back(n);
    return all;
  }();
  return lengths;
}

// Rows begin `offset` floats after an aligned address, and this value follows their end.
constexpr float kSentinel = 12345.0f;

std::vector<float> padded(const std::vector<float>& values, size_t offset) {
  std::vector<float> row(offset, kSentinel);
  row.insert(row.end(), values.begin(), values.end());
  row.push_back(kSentinel);
  return row;
}

class Elementwise : public ::testing::TestWithParam<Isa> {
 protected:
  const Kernels& ref() const { return kernels_for(Isa::kRef); }
  const Kernels& kernels() const { return kernels_for(GetParam()); }
};

TEST_P(Elementwise, RmsNormMatchesRef) {
  FloatSequence sequence(3);
  for (size_t n : lengths()) {
    for (size_t offset = 0; offset < 3; ++offset) {
      const auto x = padded(sequence.vector(n, -4, 4), offset);
      const auto weight = padded(sequence.vector(n, -2, 2), offset);
      auto want = padded(std::vector<float>(n), offset);
      auto got = want;
      ref().rms_norm(&x[offset], &weight[offset], 1e-5f, n, &want[offset]);
      kernels().rms_norm(&x[offset], &weight[offset], 1e-5f, n, &got[offset]);
      ASSERT_TRUE(same_bits(got, want)) << "n = " << n;
      auto in_place = x;
      kernels().rms_norm(&in_place[offset], &weight[offset], 1e-5f, n, &in_place[offset]);
      ASSERT_TRUE(same_bits(in_place, want)) << "in place, n = " << n;
    }
  }
}

TEST_P(Elementwise, RmsNormOfZerosIsZero) {
  std::vector<float> x(33), weight(33, 1.0f), y(33, 1.0f);
  kernels().rms_norm(x.data(), weight.data(), 1e-5f, 33, y.data());
  EXPECT_TRUE(same_bits(y, std::vector<float>(33)));
}

// Rows whose squares, sums of squares, or (for layer norms) sums overflow a float, mixed with small numbers.
std::vector<std::vector<float>> huge_rows(size_t n) {
  FloatSequence sequence(11);
  std::vector<std::vector<float>> rows;
  for (const float range : {2e18f, 3e19f, 1e30f, 3.4e38f}) {
    for (const float least : {-1.0f, 0.5f}) {
      rows.push_back(sequence.vector(n, least, 1));
      for (float& x : rows.back()) x *= range;
    }
    rows.push_back(sequence.vector(n, -4, 4));
    rows.back()[n / 2] = -range;
  }
  return rows;
}

TEST_P(Elementwise, NormsOfHugeRowsMatchRef) {
  for (size_t n : {1u, 16u, 37u, 576u, 4097u}) {
    const auto weight = padded(FloatSequence(12).vector(n, -2, 2), 0), bias = padded(FloatSequence(13).vector(n), 0);
    for (const std::vector<float>& row : huge_rows(n)) {
      const auto x = padded(row, 0);
      auto want = padded(std::vector<float>(n), 0);
      auto got = x;
      ref().rms_norm(x.data(), weight.data(), 1e-5f, n, want.data());
      kernels().rms_norm(got.data(), weight.data(), 1e-5f, n, got.data());
      ASSERT_TRUE(same_bits(got, want)) << "n = " << n << ", x[0] = " << row[0];
      got = x;
      ref().layer_norm(x.data(), weight.data(), bias.data(), 1e-5f, n, want.data());
      kernels().layer_norm(got.data(), weight.data(), bias.data(), 1e-5f, n, got.data());
      ASSERT_TRUE(same_bits(got, want)) << "n = " << n << ", x[0] = " << row[0];
    }
  }
}

TEST_P(Elementwise, SiluMulMatchesRef) {
  FloatSequence sequence(4);
  for (size_t n : lengths()) {
    for (float range : {3.0f, 200.0f}) {
      const auto gate = padded(sequence.vector(n, -range, range), 1);
      const auto up = padded(sequence.vector(n), 1);
      auto want = padded(std::vector<float>(n), 1);
      auto got = want;
      ref().silu_mul(&gate[1], &up[1], n, &want[1]);
      kernels().silu_mul(&gate[1], &up[1], n, &got[1]);
      ASSERT_TRUE(same_bits(got, want)) << "n = " << n;
      auto in_place = gate;
      kernels().silu_mul(&in_place[1], &up[1], n, &in_place[1]);
      ASSERT_TRUE(same_bits(in_place, want)) << "in place, n = " << n;
    }
  }
}

TEST_P(Elementwise, ClampedSwigluMatchesRef) {
  FloatSequence sequence(9);
  for (size_t n : lengths()) {
    for (float range : {2.0f, 300.0f}) {
      const auto gate = padded(sequence.vector(n, -range, range), 1);
      const auto up = padded(sequence.vector(n, -range, range), 1);
      auto want = padded(std::vector<float>(n), 1);
      auto got = want;
      ref().clamped_swiglu(&gate[1], &up[1], 1.2f, 1.702f, n, &want[1]);
      kernels().clamped_swiglu(&gate[1], &up[1], 1.2f, 1.702f, n, &got[1]);
      ASSERT_TRUE(same_bits(got, want)) << "n = " << n;
      auto in_place = gate;
      kernels().clamped_swiglu(&in_place[1], &up[1], 1.2f, 1.702f, n, &in_place[1]);
      ASSERT_TRUE(same_bits(in_place, want)) << "in place, n = " << n;
    }
  }
}

TEST_P(Elementwise, ClampedSwigluOfNanIsNan) {
  const std::vector<float> bad(17, std::nanf("")), good(17, 0.5f);
  std::vector<float> y(17);
  kernels().clamped_swiglu(bad.data(), good.data(), 7.0f, 1.702f, 17, y.data());
  for (const float value : y) EXPECT_TRUE(std::isnan(value));
  kernels().clamped_swiglu(good.data(), bad.data(), 7.0f, 1.702f, 17, y.data());
  for (const float value : y) EXPECT_TRUE(std::isnan(value));
}

TEST_P(Elementwise, LayerNormWithAndWithoutBiasMatchesRef) {
  FloatSequence sequence(9);
  for (size_t n : lengths()) {
    const auto x = padded(sequence.vector(n, -3, 5), 1);
    const auto weight = padded(sequence.vector(n, -2, 2), 1), bias = padded(sequence.vector(n), 1);
    for (const float* b : {static_cast<const float*>(nullptr), &bias[1]}) {
      auto want = padded(std::vector<float>(n), 1);
      auto got = want;
      ref().layer_norm(&x[1], &weight[1], b, 1e-5f, n, &want[1]);
      kernels().layer_norm(&x[1], &weight[1], b, 1e-5f, n, &got[1]);
      ASSERT_TRUE(same_bits(got, want)) << "n = " << n;
      auto in_place = x;
      kernels().layer_norm(&in_place[1], &weight[1], b, 1e-5f, n, &in_place[1]);
      ASSERT_TRUE(same_bits(in_place, want)) << "in place, n = " << n;
    }
  }
}

const std::vector<Activation>& activations() {
  using Kind = Activation::Kind;
  static const std::vector<Activation> all = {
      {Kind::kSilu}, {Kind::kGelu}, {Kind::kGeluTanh}, {Kind::kReluSquared}, {Kind::kXielu, 0.8f, 1.3f, 0.5f, -1e-6f}};
  return all;
}

TEST_P(Elementwise, ActivationsMatchRef) {
  FloatSequence sequence(10);
  for (const Activation& f : activations()) {
    for (size_t n : lengths()) {
      for (const float range : {0.01f, 3.0f, 200.0f}) {
        const auto x = padded(sequence.vector(n, -range, range), 1);
        auto want = padded(std::vector<float>(n), 1);
        auto got = want;
        ref().activate(f, &x[1], n, &want[1]);
        kernels().activate(f, &x[1], n, &got[1]);
        ASSERT_TRUE(same_bits(got, want)) << "kind " << static_cast<int>(f.kind) << ", n = " << n;
        auto in_place = x;
        kernels().activate(f, &in_place[1], n, &in_place[1]);
        ASSERT_TRUE(same_bits(in_place, want)) << "in place, kind " << static_cast<int>(f.kind) << ", n = " << n;
      }
    }
  }
}

TEST_P(Elementwise, SoftcapAndMultiplyMatchRef) {
  FloatSequence sequence(11);
  for (size_t n : lengths()) {
    const auto y = padded(sequence.vector(n), 2);
    auto want = padded(sequence.vector(n, -90, 90), 2);
    auto got = want;
    ref().softcap(&want[2], 30.0f, n);
    kernels().softcap(&got[2], 30.0f, n);
    ASSERT_TRUE(same_bits(got, want)) << "n = " << n;
    ref().multiply(&want[2], &y[2], n);
    kernels().multiply(&got[2], &y[2], n);
    ASSERT_TRUE(same_bits(got, want)) << "n = " << n;
  }
}

TEST_P(Elementwise, AddAndScaleMatchRef) {
  FloatSequence sequence(5);
  for (size_t n : lengths()) {
    const auto y = padded(sequence.vector(n), 2);
    auto want = padded(sequence.vector(n), 2);
    auto got = want;
    ref().add(&want[2], &y[2], n);
    kernels().add(&got[2], &y[2], n);
    ASSERT_TRUE(same_bits(got, want)) << "n = " << n;
    ref().scale(&want[2], 1.7f, n);
    kernels().scale(&got[2], 1.7f, n);
    ASSERT_TRUE(same_bits(got, want)) << "n = " << n;
  }
}

TEST_P(Elementwise, RopeRotatesPairsAndChangesNothingElse) {
  FloatSequence sequence(6);
  for (size_t half = 1; half <= 66; ++half) {
    const auto angles = sequence.vector(2 * half);
    auto want = padded(sequence.vector(2 * half), 1);
    auto got = want;
    ref().rope(&want[1], angles.data(), 2 * half);
    kernels().rope(&got[1], angles.data(), 2 * half);
    ASSERT_TRUE(same_bits(got, want)) << "rotary_dim = " << 2 * half;
    EXPECT_EQ(got.back(), kSentinel);
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Elementwise, ::testing::ValuesIn(vector_isas()),
                         [](const auto& isa) { return std::string(isa_name(isa.param)); });

TEST(ElementwiseReference, RefKernelsAreCloseToExactMathematics) {
  FloatSequence sequence(7);
  const Kernels& ref = kernels_for(Isa::kRef);
  const Kernels& oracle = reference_kernels();
  for (size_t n : {1u, 17u, 576u}) {
    const auto x = sequence.vector(n, -4, 4), w = sequence.vector(n, -2, 2);
    std::vector<float> a(n), b(n);
    ref.rms_norm(x.data(), w.data(), 1e-5f, n, a.data());
    oracle.rms_norm(x.data(), w.data(), 1e-5f, n, b.data());
    for (size_t i = 0; i < n; ++i) ASSERT_NEAR(a[i], b[i], 5e-7 * std::fabs(b[i]) + 1e-9);
    const auto gate = sequence.vector(n, -60, 60);
    ref.silu_mul(gate.data(), w.data(), n, a.data());
    oracle.silu_mul(gate.data(), w.data(), n, b.data());
    for (size_t i = 0; i < n; ++i) ASSERT_NEAR(a[i], b[i], 5e-7 * std::fabs(b[i]) + 1e-20);
    ref.clamped_swiglu(gate.data(), x.data(), 7.0f, 1.702f, n, a.data());
    oracle.clamped_swiglu(gate.data(), x.data(), 7.0f, 1.702f, n, b.data());
    for (size_t i = 0; i < n; ++i) {
      const double g = std::min(gate[i], 7.0f), u = std::clamp(x[i], -7.0f, 7.0f);
      ASSERT_NEAR(b[i], (u + 1) * g / (1 + std::exp(-double{1.702f} * g)), 2e-7 * std::fabs(b[i]) + 1e-20);
      ASSERT_NEAR(a[i], b[i], 1e-5 * std::fabs(b[i]) + 1e-20);
    }
  }
}

TEST(ElementwiseReference, NormsOfHugeRowsAreCloseToExactMathematics) {
  const Kernels& ref = kernels_for(Isa::kRef);
  const Kernels& oracle = reference_kernels();
  for (size_t n : {16u, 577u}) {
    const auto w = FloatSequence(14).vector(n, -2, 2);
    std::vector<float> a(n), b(n);
    for (const std::vector<float>& x : huge_rows(n)) {
      ref.rms_norm(x.data(), w.data(), 1e-5f, n, a.data());
      oracle.rms_norm(x.data(), w.data(), 1e-5f, n, b.data());
      for (size_t i = 0; i < n; ++i) ASSERT_NEAR(a[i], b[i], 5e-7 * std::fabs(b[i]) + 1e-9) << x[0];
      ref.layer_norm(x.data(), w.data(), nullptr, 1e-5f, n, a.data());
      oracle.layer_norm(x.data(), w.data(), nullptr, 1e-5f, n, b.data());
      for (size_t i = 0; i < n; ++i) ASSERT_NEAR(a[i], b[i], 5e-7 * std::fabs(b[i]) + 2e-6) << x[0];
    }
  }
}

TEST(ElementwiseReference, LayerNormAndActivationsAreCloseToExactMathematics) {
  FloatSequence sequence(12);
  const Kernels& ref = kernels_for(Isa::kRef);
  const Kernels& oracle = reference_kernels();
  const size_t n = 577;
  const auto w = sequence.vector(n, -2, 2), bias = sequence.vector(n, -2, 2);
  std::vector<float> a(n), b(n);
  for (const float range : {0.01f, 1.0f, 8.0f, 60.0f}) {
    const auto x = sequence.vector(n, -range, range);
    for (const Activation& f : activations()) {
      ref.activate(f, x.data(), n, a.data());
      oracle.activate(f, x.data(), n, b.data());
      for (size_t i = 0; i < n; ++i) {
        ASSERT_NEAR(a[i], b[i], 5e-7 * std::fabs(b[i]) + 1e-7 * std::fabs(x[i]))
            << "kind " << static_cast<int>(f.kind) << ", x = " << x[i];
      }
    }
    ref.layer_norm(x.data(), w.data(), bias.data(), 1e-5f, n, a.data());
    oracle.layer_norm(x.data(), w.data(), bias.data(), 1e-5f, n, b.data());
    for (size_t i = 0; i < n; ++i) ASSERT_NEAR(a[i], b[i], 2e-6);
    auto capped = x, exactly = x;
    ref.softcap(capped.data(), 30.0f, n);
    oracle.softcap(exactly.data(), 30.0f, n);
    for (size_t i = 0; i < n; ++i) ASSERT_NEAR(capped[i], exactly[i], 5e-7 * std::fabs(exactly[i]));
  }
}

TEST(ElementwiseReference, RopeMatchesDouble) {
  FloatSequence sequence(8);
  const auto x = sequence.vector(64), angles = sequence.vector(64);
  auto y = x;
  kernels_for(Isa::kRef).rope(y.data(), angles.data(), 64);
  for (size_t i = 0; i < 32; ++i) {
    const double a = x[i], b = x[32 + i], c = angles[i], s = angles[32 + i];
    EXPECT_NEAR(y[i], a * c - b * s, 2e-7);
    EXPECT_NEAR(y[32 + i], a * s + b * c, 2e-7);
  }
}

}  // namespace
}  // namespace ibid
