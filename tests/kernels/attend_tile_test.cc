#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "kernels/layout/kv_head_block.h"
#include "tests/kernels/stored_pages.h"

namespace ibid {
namespace {

// The input of attend_tile, except the pages.
struct TileCase {
  size_t head_dim = 64;
  std::vector<size_t> row_begin;
  std::vector<size_t> row_end;
  size_t begin = 0;
  float softcap = 0;
  size_t q_padding = 0;  // floats between query rows
  uint64_t seed = 1;

  size_t n_rows() const { return row_begin.size(); }
};

struct TileResult {
  std::vector<float> max, sum, out;
};

TileResult run_tile(const Kernels& kernels, const StoredPages& pages, const TileCase& c) {
  const size_t stride = c.head_dim + c.q_padding;
  FloatSequence sequence(c.seed);
  const std::vector<float> q = sequence.vector(c.n_rows() * stride, -2, 2);
  const size_t v_dim = pages.block.v_dim;
  AlignedBytes scratch(attend_scratch_bytes(c.n_rows(), c.head_dim));
  fill_with_nan(scratch.get(), attend_scratch_bytes(c.n_rows(), c.head_dim));
  TileResult result{std::vector<float>(c.n_rows()), std::vector<float>(c.n_rows()),
                    std::vector<float>(c.n_rows() * v_dim)};
  AttendTile tile{};
  tile.head_blocks = pages.pages.data() + c.begin / kPagePositions;
  tile.begin = c.begin;
  tile.q = q.data();
  tile.q_stride = stride;
  tile.n_rows = c.n_rows();
  tile.row_begin = c.row_begin.data();
  tile.row_end = c.row_end.data();
  tile.scale = 0.3f;
  tile.softcap = c.softcap;
  tile.result = {result.max.data(), result.sum.data(), result.out.data(), v_dim};
  kernels.attend_tile(pages.block, tile, scratch.get());
  const TileResult first = result;
  tile.same_rows = true;  // the scratch already has these rows; reusing it must give the same result
  kernels.attend_tile(pages.block, tile, scratch.get());
  EXPECT_TRUE(same_bits(first.max, result.max) && same_bits(first.sum, result.sum) && same_bits(first.out, result.out));
  return result;
}

::testing::AssertionResult same_result(const TileResult& a, const TileResult& b) {
  if (auto same = same_bits(a.max, b.max); !same) return same << " (max)";
  if (auto same = same_bits(a.sum, b.sum); !same) return same << " (sum)";
  return same_bits(a.out, b.out) << " (out)";
}

class AttendTileTest : public ::testing::TestWithParam<std::tuple<Isa, KvRowFormat>> {
 protected:
  const Kernels& ref() const { return kernels_for(Isa::kRef); }
  const Kernels& kernels() const { return kernels_for(std::get<0>(GetParam())); }
  KvRowFormat format() const { return std::get<1>(GetParam()); }
};

// Causal rows at the end of a block, for every length of the block; positions after the end are NaN.
TEST_P(AttendTileTest, EveryBlockLengthMatchesRef) {
  for (size_t length = 1; length <= 256; ++length) {
    const StoredPages pages(ref(), format(), 1, 24, length, length);
    TileCase c;
    c.head_dim = 24;
    c.seed = length;
    for (size_t row = 0; row < 3; ++row) {
      c.row_begin.push_back(0);
      c.row_end.push_back(length > 2 - row ? length - (2 - row) : 0);
    }
    ASSERT_TRUE(same_result(run_tile(kernels(), pages, c), run_tile(ref(), pages, c))) << length;
  }
}

TEST_P(AttendTileTest, EveryHeadDimAndRowCountMatchesRef) {
  for (size_t head_dim : {8u, 16u, 24u, 40u, 64u, 80u, 96u, 100u, 128u, 256u}) {
    const StoredPages pages(ref(), format(), 1, head_dim, 133, head_dim);
    TileCase c;
    c.head_dim = head_dim;
    c.q_padding = 3;
    for (size_t n_rows = 1; n_rows <= 20; ++n_rows) {
      c.row_begin.push_back(0);
      c.row_end.push_back(114 + n_rows - 1);
      ASSERT_TRUE(same_result(run_tile(kernels(), pages, c), run_tile(ref(), pages, c)))
          << "head_dim " << head_dim << " rows " << n_rows;
    }
  }
}

// Ranges of all kinds: windows, empty ranges, ranges that begin before or end after the block.
TEST_P(AttendTileTest, RowsWithDifferentRangesMatchRef) {
  const StoredPages pages(ref(), format(), 1, 64, 700, 5);
  FloatSequence sequence(6);
  for (size_t round = 0; round < 40; ++round) {
    TileCase c;
    c.begin = 256 * (round % 2);
    c.seed = round;
    c.softcap = round % 3 == 0 ? 2.0f : 0.0f;
    for (size_t row = 0; row < 1 + round % 19; ++row) {
      const size_t begin = sequence.next_bits() % 700;
      c.row_begin.push_back(begin);
      c.row_end.push_back(begin + sequence.next_bits() % (701 - begin));
    }
    ASSERT_TRUE(same_result(run_tile(kernels(), pages, c), run_tile(ref(), pages, c))) << round;
  }
}

// A row's result depends neither on other rows nor on data at positions that are not visible to it.
TEST_P(AttendTileTest, RowsAreIndependentOfOtherRowsAndInvisiblePositions) {
  StoredPages pages(ref(), format(), 1, 40, 256, 7);
  TileCase together;
  together.head_dim = 40;
  for (size_t row = 0; row < 13; ++row) {
    together.row_begin.push_back(100 + row);
    together.row_end.push_back(200 + row);
  }
  const TileResult all = run_tile(kernels(), pages, together);
  // Make all positions NaN that no row sees; then all positions that the last row does not see.
  for (size_t page : {0u, 3u}) {
    std::vector<float> nan(40, std::numeric_limits<float>::quiet_NaN());
    const KvHeadBlock& block = pages.block;
    for (size_t p = page == 0 ? 0 : 22; p < 64; ++p) {
      const AlignedBytes before(block.bytes);
      std::memcpy(before.get(), pages.head(page, 0), block.bytes);
      kernels_for(Isa::kRef).kv_store(block, pages.head(page, 0), p, nan.data(), nan.data());
      // In quantised parts only the scales can be NaN.
      for (const auto& [part, begin, scales_at, end] :
           {std::tuple(block.keys(), block.k, block.k_scale, block.v),
            std::tuple(block.values(), block.v, block.v_scale, block.bytes)}) {
        if (!is_coded(part)) continue;
        std::memcpy(pages.head(page, 0) + begin, before.get() + begin, end - begin);
        const KvScales scales = KvScales::of(block, part);
        for (size_t i = 0; i < scales.arrays; ++i) {
          fill_with_nan(pages.head(page, 0) + scales_at + i * scales.array_bytes() + p * scales.bytes, scales.bytes);
        }
      }
    }
  }
  EXPECT_TRUE(same_result(run_tile(kernels(), pages, together), all));
  for (size_t row = 0; row < 13; ++row) {
    TileCase prefix = together;
    prefix.row_begin.resize(row + 1);
    prefix.row_end.resize(row + 1);
    for (size_t other = 0; other < row; ++other) prefix.row_end[other] = prefix.row_begin[other];
    const TileResult alone = run_tile(kernels(), pages, prefix);
    EXPECT_TRUE(same_bits(std::span(alone.max).subspan(row), std::span(all.max).subspan(row, 1)));
    EXPECT_TRUE(same_bits(std::span(alone.sum).subspan(row), std::span(all.sum).subspan(row, 1)));
    EXPECT_TRUE(same_bits(std::span(alone.out).subspan(row * 48), std::span(all.out).subspan(row * 48, 48)));
  }
}

// Equal weights at all 256 positions, and values of the largest magnitude, give the largest integer sums.
TEST_P(AttendTileTest, LargestIntegerSumsDoNotOverflow) {
  for (const float value : {3.0f, -3.0f}) {
    StoredPages pages(ref(), format(), 1, 64, 256, 3);
    const std::vector<float> k(64, 0.0f);
    std::vector<float> v(64, value);
    if (is_coded(format().values)) ref().hadamard(v.data(), 64);  // kv_store will undo it
    for (size_t p = 0; p < 256; ++p) {
      ref().kv_store(pages.block, pages.head(p / kPagePositions, 0), p % kPagePositions, k.data(), v.data());
    }
    TileCase c;
    c.row_begin.assign(19, 0);
    c.row_end.assign(19, 256);
    const TileResult result = run_tile(kernels(), pages, c);
    EXPECT_TRUE(same_result(result, run_tile(ref(), pages, c)));
    for (const float out : result.out) EXPECT_NEAR(out, 256 * value, 256 * 3.0f * 1e-6f);
  }
}

TEST_P(AttendTileTest, EmptyRangesGiveZeroSums) {
  const StoredPages pages(ref(), format(), 1, 64, 64, 8);
  TileCase c;
  c.row_begin = {0, 70};
  c.row_end = {0, 60};
  const TileResult result = run_tile(kernels(), pages, c);
  EXPECT_EQ(result.max[0], -std::numeric_limits<float>::infinity());
  EXPECT_EQ(result.sum[1], 0.0f);
  EXPECT_TRUE(same_bits(result.out, std::vector<float>(128)));
  EXPECT_TRUE(same_result(result, run_tile(ref(), pages, c)));
}

TEST_P(AttendTileTest, MergeOfPartialSumsMatchesRef) {
  FloatSequence sequence(9);
  for (size_t head_dim : {1u, 15u, 16u, 40u, 64u, 100u}) {
    const size_t stride = (head_dim + 15) / 16 * 16;
    std::vector<float> part_max = sequence.vector(5, -50, 50), part_sum = sequence.vector(5, 1, 99);
    std::vector<float> part_out = sequence.vector(5 * stride), total_max = sequence.vector(5, -50, 50);
    part_max[1] = total_max[2] = -std::numeric_limits<float>::infinity();
    part_max[3] = total_max[3];
    std::vector<float> total_sum = sequence.vector(5, 1, 99), total_out = sequence.vector(5 * stride);
    const AttendSums part{part_max.data(), part_sum.data(), part_out.data(), stride};
    auto max2 = total_max, sum2 = total_sum, out2 = total_out;
    ref().attend_merge({total_max.data(), total_sum.data(), total_out.data(), stride}, part, 5, head_dim);
    kernels().attend_merge({max2.data(), sum2.data(), out2.data(), stride}, part, 5, head_dim);
    EXPECT_TRUE(same_bits(max2, total_max));
    EXPECT_TRUE(same_bits(sum2, total_sum));
    EXPECT_TRUE(same_bits(out2, total_out));
  }
}

INSTANTIATE_TEST_SUITE_P(IsasAndFormats, AttendTileTest,
                         ::testing::Combine(::testing::ValuesIn(vector_isas()), ::testing::ValuesIn(kKvFormats)),
                         [](const auto& c) {
                           return std::string(isa_name(std::get<0>(c.param))) + "_" +
                                  kv_format_name(std::get<1>(c.param));
                         });

}  // namespace
}  // namespace ibid
