#include "kernels/layout/pack.h"

#include <gtest/gtest.h>

#include <tuple>

#include "tests/kernels/random_panels.h"

namespace ibid {
namespace {

class Pack : public testing::TestWithParam<std::tuple<PanelType, size_t, size_t>> {};

TEST_P(Pack, UnpackingGivesTheDecodedValues) {
  const auto [type, n_rows, n_cols] = GetParam();
  const TestWeights w = random_weights(type, n_rows, n_cols, 1);
  std::vector<float> row(n_cols);
  for (size_t r = 0; r < n_rows; ++r) {
    unpack_row(w.packed, r, row.data());
    ASSERT_EQ(std::memcmp(row.data(), &w.values[r * n_cols], n_cols * sizeof(float)), 0) << "row " << r;
  }
}

INSTANTIATE_TEST_SUITE_P(Quantized, Pack,
                         testing::Combine(testing::ValuesIn(kQuantizedPanels), testing::Values(1, 15, 16, 17, 40),
                                          testing::Values(32, 64, 96, 576)));
INSTANTIATE_TEST_SUITE_P(FloatsOfAByte, Pack,
                         testing::Combine(testing::ValuesIn(kF8Panels), testing::Values(1, 15, 16, 17, 40),
                                          testing::Values(32, 64, 96, 576)));
INSTANTIATE_TEST_SUITE_P(Float, Pack,
                         testing::Combine(testing::ValuesIn(kFloatPanels), testing::Values(1, 15, 16, 17, 40),
                                          testing::Values(1, 3, 31, 64, 100)));

TEST(PackExtremes, ExtremeCodesRoundTrip) {
  for (PanelType type : kQuantizedPanels) {
    for (Codes codes : {Codes::kLowest, Codes::kHighest}) {
      const TestWeights w = random_weights(type, 16, 96, 2, codes);
      std::vector<float> row(96);
      for (size_t r = 0; r < 16; ++r) {
        unpack_row(w.packed, r, row.data());
        ASSERT_EQ(std::memcmp(row.data(), &w.values[r * 96], 96 * sizeof(float)), 0) << panel_type_name(type);
      }
    }
  }
}

}  // namespace
}  // namespace ibid
