// Linear kernels: bit-identical results on every instruction set, for every number of rows and every split.
#include <gtest/gtest.h>

#include "kernels/ops/blas.h"
#include "kernels/reference/ref.h"
#include "tests/kernels/random_panels.h"

namespace ibid {
namespace {

constexpr size_t kLongRow = 16384;
constexpr size_t kRowCounts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 33, 70};

// Returns the input rows of one case: ordinary rows, and rows with the extreme values of int8.
TestInput case_input(const Kernels& kernels, size_t n_rows, size_t n_cols) {
  std::vector<float> values = random_floats(n_rows * n_cols, 3);
  for (size_t k = 0; k < n_cols; ++k) {
    values[k] = 1.0f;                            // quantised: all 127
    if (n_rows > 1) values[n_cols + k] = -3.0f;  // quantised: all -127
    if (n_rows > 2) values[2 * n_cols + k] = k % 2 == 0 ? 5.0f : -5.0f;
    if (n_rows > 3) values[3 * n_cols + k] = 0.0f;
  }
  return make_input(kernels, n_rows, n_cols, values);
}

void expect_same_bits(const AlignedArray<float>& expected, const AlignedArray<float>& actual, size_t first_row,
                      size_t n_rows, size_t n_outputs, size_t stride, const char* isa) {
  for (size_t r = 0; r < n_rows; ++r) {
    for (size_t i = 0; i < n_outputs; ++i) {
      const float a = expected[(first_row + r) * stride + i], b = actual[r * stride + i];
      ASSERT_EQ(std::memcmp(&a, &b, sizeof(a)), 0)
          << isa << " row " << first_row + r << " output " << i << ": " << a << " vs " << b;
    }
  }
}

void expect_all_tables_agree(const TestWeights& w, size_t max_rows) {
  const Kernels& ref = kernels_for(Isa::kRef);
  const TestInput in = case_input(ref, max_rows, w.packed.n_cols);
  const Range all{0, w.packed.n_panels()};
  const size_t stride = all.end * kPanelRows;
  const AlignedArray<float> expected = run_linear(ref, w, in, all, {0, max_rows});
  for (Isa isa : supported_isas()) {
    for (size_t n_rows : kRowCounts) {
      if (n_rows > max_rows) break;
      const size_t first = max_rows - n_rows;  // a different subset each time
      const AlignedArray<float> y = run_linear(kernels_for(isa), w, in, all, {first, max_rows});
      expect_same_bits(expected, y, first, n_rows, w.packed.n_rows, stride, isa_name(isa));
    }
  }
}

class QuantizedLinear : public testing::TestWithParam<PanelType> {};

TEST_P(QuantizedLinear, AllInstructionSetsAndRowCountsGiveTheSameBits) {
  for (size_t n_cols : {32u, 64u, 96u, 160u, 256u, 544u}) {
    SCOPED_TRACE(n_cols);
    expect_all_tables_agree(random_weights(GetParam(), 40, n_cols, 4), n_cols == 160 ? 70 : 18);
  }
}

TEST_P(QuantizedLinear, AllInstructionSetsAgreeForEveryNumberOfOutputs) {
  for (size_t n_rows = 1; n_rows <= 100; n_rows += n_rows < 40 ? 1 : 15) {
    SCOPED_TRACE(n_rows);
    expect_all_tables_agree(random_weights(GetParam(), n_rows, 64, 5), 17);
  }
}

TEST_P(QuantizedLinear, ExtremeCodesDoNotOverflow) {
  for (Codes codes : {Codes::kLowest, Codes::kHighest}) {
    expect_all_tables_agree(random_weights(GetParam(), 16, 1024, 6, codes), 17);
  }
}

// Rows so long that the quantised kernels need more scratch than BLAS. run_linear() detects writes after the scratch.
TEST_P(QuantizedLinear, LongRowsStayWithinTheirScratchMemory) {
  ASSERT_GT(linear_scratch_bytes(kLongRow), blas_scratch_bytes(kLongRow));
  expect_all_tables_agree(random_weights(GetParam(), 2 * kPanelRows, kLongRow, 6), 16);
}

TEST_P(QuantizedLinear, SplittingPanelsChangesNoResultAndWritesNothingElse) {
  const TestWeights w = random_weights(GetParam(), 16 * 11, 96, 7);
  for (Isa isa : supported_isas()) {
    const Kernels& kernels = kernels_for(isa);
    for (size_t n_rows : {1u, 5u, 12u, 21u}) {
      const TestInput in = case_input(kernels, n_rows, 96);
      const AlignedArray<float> whole = run_linear(kernels, w, in, {0, 11}, {0, n_rows});
      const AlignedArray<float> untouched(n_rows * 16 * 11);
      for (size_t begin = 0; begin < 11; ++begin) {
        for (size_t end = begin; end <= 11; ++end) {
          const AlignedArray<float> part = run_linear(kernels, w, in, {begin, end}, {0, n_rows});
          for (size_t i = 0; i < part.size(); ++i) {
            const size_t panel = i % (16 * 11) / 16;
            const AlignedArray<float>& wanted = panel >= begin && panel < end ? whole : untouched;
            ASSERT_EQ(std::memcmp(&part[i], &wanted[i], sizeof(float)), 0) << begin << ".." << end << " at " << i;
          }
        }
      }
    }
  }
}

// Errors come only from rounding inputs to int8 (half a step of each input times |w|) and from the float sums.
TEST_P(QuantizedLinear, ErrorIsBoundedByInputQuantisation) {
  const size_t n_rows = 24, n_cols = 288, n_inputs = 5;
  const TestWeights w = random_weights(GetParam(), n_rows, n_cols, 8);
  const std::vector<float> x = random_floats(n_inputs * n_cols, 9);
  const TestInput in = make_input(kernels_for(Isa::kRef), n_inputs, n_cols, x);
  const AlignedArray<float> y = run_linear(kernels_for(Isa::kRef), w, in, {0, 2}, {0, n_inputs});
  for (size_t i = 0; i < n_inputs; ++i) {
    for (size_t r = 0; r < n_rows; ++r) {
      double exact = 0, bound = 0, magnitude = 0;
      for (size_t k = 0; k < n_cols; ++k) {
        const double weight = w.values[r * n_cols + k], value = x[i * n_cols + k];
        exact += weight * value;
        magnitude += std::fabs(weight * value);
        bound += std::fabs(weight) * 0.5 * in.quantized.scale[in.quantized.at(i, k / 32)];
      }
      EXPECT_LE(std::fabs(static_cast<double>(y[i * 32 + r]) - exact), bound * 1.0001 + magnitude * 1e-5);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Panels, QuantizedLinear, testing::ValuesIn(kQuantizedPanels),
                         [](const auto& panel) { return std::string(panel_type_name(panel.param)); });

class FloatLinear : public testing::TestWithParam<PanelType> {};

TEST_P(FloatLinear, AllInstructionSetsAndRowCountsGiveTheSameBits) {
  for (size_t n_cols : {1u, 2u, 15u, 16u, 17u, 33u, 100u}) {
    SCOPED_TRACE(n_cols);
    expect_all_tables_agree(random_weights(GetParam(), 40, n_cols, 4), n_cols == 33 ? 70 : 9);
  }
  expect_all_tables_agree(random_weights(GetParam(), 20, 2050, 4), 5);  // more than one block of columns
}

TEST_P(FloatLinear, AllInstructionSetsAgreeForMoreRowsThanABlock) {
  const TestWeights w = random_weights(GetParam(), 70, 20, 5);
  const TestInput in = case_input(kernels_for(Isa::kRef), 261, 20);
  const AlignedArray<float> expected = run_linear(kernels_for(Isa::kRef), w, in, {0, 5}, {0, 261});
  for (Isa isa : supported_isas()) {
    const AlignedArray<float> y = run_linear(kernels_for(isa), w, in, {0, 5}, {0, 261});
    expect_same_bits(expected, y, 0, 261, 70, 80, isa_name(isa));
  }
}

TEST_P(FloatLinear, AllInstructionSetsAgreeForEveryNumberOfOutputs) {
  for (size_t n_rows = 1; n_rows <= 100; n_rows += n_rows < 40 ? 1 : 15) {
    expect_all_tables_agree(random_weights(GetParam(), n_rows, 18, 5), 6);
  }
}

INSTANTIATE_TEST_SUITE_P(Panels, FloatLinear, testing::ValuesIn(kFloatPanels),
                         [](const auto& panel) { return std::string(panel_type_name(panel.param)); });

class F8Linear : public testing::TestWithParam<PanelType> {};

TEST_P(F8Linear, AllInstructionSetsAndRowCountsGiveTheSameBits) {
  for (size_t n_cols : {32u, 64u, 96u, 160u}) {
    SCOPED_TRACE(n_cols);
    expect_all_tables_agree(random_weights(GetParam(), 40, n_cols, 4), n_cols == 96 ? 70 : 9);
  }
  expect_all_tables_agree(random_weights(GetParam(), 20, 2080, 4), 5);  // more than one block of columns
}

INSTANTIATE_TEST_SUITE_P(Panels, F8Linear, testing::ValuesIn(kF8Panels),
                         [](const auto& panel) { return std::string(panel_type_name(panel.param)); });

// The oracle supports only kPF panels.
TEST(ReferenceLinear, ResultIsTheSumInDoubleRoundedToFloat) {
  const size_t n_cols = 300;
  const TestWeights w = random_weights(PanelType::kPF, 24, n_cols, 8);
  const std::vector<float> x = random_floats(3 * n_cols, 9);
  const TestInput in = make_input(reference_kernels(), 3, n_cols, x);
  const AlignedArray<float> y = run_linear(reference_kernels(), w, in, {0, 2}, {0, 3});
  for (size_t i = 0; i < 3; ++i) {
    for (size_t r = 0; r < 24; ++r) {
      double exact = 0;
      for (size_t k = 0; k < n_cols; ++k) {
        exact += static_cast<double>(w.values[r * n_cols + k]) * static_cast<double>(x[i * n_cols + k]);
      }
      EXPECT_EQ(y[i * 32 + r], static_cast<float>(exact));
    }
  }
}

}  // namespace
}  // namespace ibid
