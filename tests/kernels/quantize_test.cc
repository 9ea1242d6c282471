#include <gtest/gtest.h>

#include <set>

#include "tests/kernels/random_panels.h"

namespace ibid {
namespace {

// Returns a row of blocks that are difficult to round.
std::vector<float> awkward_row() {
  std::vector<float> x = random_floats(32 * 9, 1);
  const auto fill = [&x](size_t block, auto value) {
    for (size_t k = 0; k < 32; ++k) x[32 * block + k] = value(static_cast<float>(k));
  };
  fill(1, [](float) { return 0.0f; });
  fill(2, [](float k) { return (k - 16.0f) + 0.5f; });    // halves between two codes
  fill(3, [](float k) { return k * 1e-38f; });            // below kMinBlockMagnitude
  fill(4, [](float k) { return (k - 10.0f) * 1e-36f; });  // just above kMinBlockMagnitude
  fill(5, [](float k) { return k == 7.0f ? -3e38f : k * 1e36f; });
  fill(6, [](float k) { return k == 3.0f ? 127.0f : k + 0.5f; });  // scale 1, so these are exact halves
  fill(7, [](float) { return -0.0f; });
  return x;
}

void expect_same_bytes(const QuantizedRows& a, const QuantizedRows& b) {
  for (size_t row = 0; row < a.n_rows; ++row) {
    for (size_t block = 0; block < a.blocks(); ++block) {
      const size_t at = a.at(row, block);
      EXPECT_EQ(std::memcmp(a.q + 32 * at, b.q + 32 * at, 32), 0);
      EXPECT_EQ(std::memcmp(a.scale + at, b.scale + at, 4), 0);
      EXPECT_EQ(std::memcmp(a.scaled_sum + at, b.scaled_sum + at, 4), 0);
      EXPECT_EQ(a.offset32[at], b.offset32[at]);
      for (size_t half : {0, 1}) {
        EXPECT_EQ(a.offset16[a.half_at(row, block, half)], b.offset16[b.half_at(row, block, half)]);
      }
    }
  }
}

TEST(Quantize, AllInstructionSetsGiveTheSameBytes) {
  const std::vector<float> x = awkward_row();
  for (size_t blocks = 1; blocks <= 9; ++blocks) {
    const TestInput expected = make_input(kernels_for(Isa::kRef), 1, 32 * blocks, x);
    for (Isa isa : supported_isas()) {
      const TestInput actual = make_input(kernels_for(isa), 1, 32 * blocks, x);
      expect_same_bytes(expected.quantized, actual.quantized);
    }
  }
}

TEST(Quantize, QuantisingARowInPartsGivesTheSameBytes) {
  const std::vector<float> x = awkward_row();
  for (Isa isa : supported_isas()) {
    const TestInput whole = make_input(kernels_for(isa), 1, x.size(), x);
    TestInput parts = make_input(kernels_for(isa), 1, x.size(), std::vector<float>(x.size()));
    QuantizedRows& b = parts.quantized;
    const size_t n = b.blocks();
    for (size_t begin = 0; begin < n; begin += 3) {
      kernels_for(isa).quantize_blocks(&whole.values[0], 0, {begin, std::min(begin + 3, n)}, b);
    }
    expect_same_bytes(whole.quantized, b);
  }
}

TEST(Quantize, CodesScalesAndSumsMatchTheirDefinitions) {
  const std::vector<float> x = awkward_row();
  const TestInput in = make_input(kernels_for(supported_isas().back()), 1, x.size(), x);
  const QuantizedRows& rows = in.quantized;
  for (size_t b = 0; b < rows.blocks(); ++b) {
    float largest = 0;
    for (size_t k = 0; k < 32 && b < 9; ++k) largest = std::max(largest, std::fabs(x[32 * b + k]));
    const bool is_zero = largest < kMinBlockMagnitude;
    EXPECT_EQ(rows.scale[rows.at(0, b)], is_zero ? 0.0f : largest / 127.0f) << b;
    int sums[2] = {0, 0};
    for (size_t k = 0; k < 32; ++k) {
      const int q = rows.q[32 * rows.at(0, b) + k];
      sums[k / 16] += q;
      EXPECT_LE(std::abs(q), 127);
      if (is_zero) {
        EXPECT_EQ(q, 0);
      } else {
        const double error = static_cast<double>(x[32 * b + k]) / static_cast<double>(rows.scale[rows.at(0, b)]) - q;
        EXPECT_LE(std::fabs(error), 0.50002) << b << ' ' << k;
      }
    }
    EXPECT_EQ(rows.offset16[rows.half_at(0, b, 0)], -128 * sums[0]);
    EXPECT_EQ(rows.offset16[rows.half_at(0, b, 1)], -128 * sums[1]);
    EXPECT_EQ(rows.offset32[rows.at(0, b)], -128 * (sums[0] + sums[1]));
    EXPECT_EQ(rows.scaled_sum[rows.at(0, b)], rows.scale[rows.at(0, b)] * static_cast<float>(sums[0] + sums[1]));
  }
  // Ties go to even: with scale 1, 0.5 becomes 0 and 1.5 becomes 2.
  EXPECT_EQ(rows.q[32 * rows.at(0, 6) + 0], 0);
  EXPECT_EQ(rows.q[32 * rows.at(0, 6) + 1], 2);
  EXPECT_EQ(rows.q[32 * rows.at(0, 6) + 2], 2);
}

// For any number of rows: blocks do not overlap, and rows that a kernel reads together are adjacent.
TEST(QuantizedRowsLayout, BlocksDoNotOverlap) {
  constexpr size_t kMaxRows = 40, kColumns = 160;
  AlignedArray<std::byte> memory(QuantizedRows::bytes(kMaxRows, kColumns));
  QuantizedRows rows = QuantizedRows::from(memory.data(), kMaxRows, kColumns);
  const size_t room = (kMaxRows + kRowGroup - 1) / kRowGroup * kRowGroup * rows.blocks();
  for (size_t n = 1; n <= kMaxRows; ++n) {
    rows.set_rows(n);
    SCOPED_TRACE(n);
    std::set<size_t> places, halves;
    for (size_t row = 0; row < n; ++row) {
      for (size_t b = 0; b < rows.blocks(); ++b) {
        const size_t at = rows.at(row, b);
        EXPECT_LT(at, room);
        EXPECT_TRUE(places.insert(at).second);
        if (row % 8 != 0) {
          EXPECT_EQ(at, rows.at(row - 1, b) + 1);
        }
        for (const size_t half : {0, 1}) {
          EXPECT_LT(rows.half_at(row, b, half), 2 * room);
          EXPECT_TRUE(halves.insert(rows.half_at(row, b, half)).second);
        }
      }
    }
  }
}

// The blocks of one row must be adjacent: 512 bytes apart they would compete for an eighth of the cache.
TEST(QuantizedRowsLayout, BlocksOfFewRowsAreAdjacent) {
  AlignedArray<std::byte> memory(QuantizedRows::bytes(40, 4096));
  QuantizedRows rows = QuantizedRows::from(memory.data(), 40, 4096);
  for (const size_t n : {1, 2, 4, 8, 16}) {
    rows.set_rows(n);
    EXPECT_EQ(rows.at(0, 1) - rows.at(0, 0), n);
  }
  rows.set_rows(40);
  EXPECT_EQ(rows.at(0, 1), kRowGroup);
}

}  // namespace
}  // namespace ibid
