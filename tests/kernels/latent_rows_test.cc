// Latent rows: one row per position that is both key and value. Every instruction set is compared with the reference
// kernels, and these with attention over separate keys and values.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "kernels/layout/kv_head_block.h"
#include "kernels/ops/attention.h"
#include "tests/kernels/stored_pages.h"

namespace ibid {
namespace {

struct LatentShape {
  size_t head_dim, latent_dim;
};

// Parts of one group and of several, sizes that are not powers of two, and the sizes of DeepSeek-V3.
constexpr LatentShape kShapes[] = {{64, 32}, {96, 32}, {160, 96}, {288, 256}, {576, 512}};

constexpr KvDType kTypes[] = {KvDType::kF32, KvDType::kF16, KvDType::kInt8, KvDType::kK8V4, KvDType::kInt4};

// Random rows with a second part of much larger magnitude than the first, like unnormalised rotary dimensions.
class LatentPages {
 public:
  LatentPages(const Kernels& kernels, KvDType dtype, LatentShape shape, size_t n_positions, uint64_t seed)
      : block(KvHeadBlock::make(dtype, shape.head_dim, shape.latent_dim)) {
    FloatSequence sequence(seed);
    for (size_t p = 0; p < n_positions; ++p) {
      if (p % kPagePositions == 0) {
        memory_.emplace_back(block.bytes);
        fill_with_nan(memory_.back().get(), block.bytes);
        pages.push_back(memory_.back().get());
      }
      std::vector<float> row = sequence.vector(shape.head_dim, -1, 1);
      for (size_t d = shape.latent_dim; d < shape.head_dim; ++d) row[d] *= 40;
      kernels.kv_store(block, memory_.back().get(), p % kPagePositions, row.data(), nullptr);
      rows.push_back(row);
    }
  }

  std::byte* page(size_t i) const { return memory_[i].get(); }

  KvHeadBlock block;
  std::vector<const std::byte*> pages;
  std::vector<std::vector<float>> rows;

 private:
  std::vector<AlignedBytes> memory_;
};

// Returns the outputs for n_heads queries at each of the last n_rows positions.
std::vector<float> attend(const Kernels& kernels, const LatentPages& pages, size_t n_heads, size_t n_rows,
                          int n_threads) {
  AttentionShape shape;
  shape.n_heads = n_heads;
  shape.n_kv_heads = 1;
  shape.head_dim = pages.block.head_dim;
  shape.latent_dim = pages.block.latent_dim;
  shape.scale = 0.05f;
  const size_t stride = n_heads * shape.head_dim, n_positions = pages.rows.size();
  FloatSequence sequence(77);
  AlignedBytes q(n_rows * stride * 4), out(n_rows * stride * 4);
  for (size_t position = 0; position < n_positions; ++position) {
    for (size_t i = 0; i < stride; ++i) {
      const float x = sequence.next() * (i % shape.head_dim < shape.latent_dim ? 1.0f : 0.1f);
      if (position >= n_positions - n_rows) q.floats()[(position - (n_positions - n_rows)) * stride + i] = x;
    }
  }
  const size_t scratch_bytes = attention_scratch_bytes(shape, n_rows, n_positions, n_threads);
  AlignedBytes scratch(scratch_bytes);
  fill_with_nan(scratch.get(), scratch_bytes);
  const AttentionSequence all[] = {{pages.pages.data(), 0, n_rows, n_positions - n_rows, 0}};
  const std::unique_ptr<ThreadTeam> team = ThreadTeam::create(n_threads).value();
  team->run([&](Worker& worker) {
    attention(worker, kernels, shape, pages.block, 0, all, q.floats(), out.floats(), stride, scratch.get());
  });
  std::vector<float> values;
  for (size_t i = 0; i < n_rows * n_heads; ++i) {
    const float* head = out.floats() + i * shape.head_dim;
    values.insert(values.end(), head, head + shape.latent_dim);
  }
  return values;
}

class LatentRows : public ::testing::TestWithParam<std::tuple<Isa, KvDType>> {
 protected:
  const Kernels& ref() const { return kernels_for(Isa::kRef); }
  const Kernels& kernels() const { return kernels_for(std::get<0>(GetParam())); }
  KvDType dtype() const { return std::get<1>(GetParam()); }
  // Returns the largest error that storage may cause in a part with numbers up to `largest`.
  double worst(double largest) const {
    switch (dtype()) {
      case KvDType::kF32: return 0;
      case KvDType::kF16: return largest * 0x1p-11;
      case KvDType::kInt8:
      case KvDType::kK8V4: return largest * 0.05;
      case KvDType::kInt4: break;
    }
    return largest * 0.6;
  }
};

TEST_P(LatentRows, StoredRowsAndValuesHaveTheSameBytesAsRef) {
  for (const LatentShape shape : kShapes) {
    const LatentPages want(ref(), dtype(), shape, 64, 3), got(kernels(), dtype(), shape, 64, 3);
    ASSERT_EQ(std::memcmp(want.page(0), got.page(0), want.block.bytes), 0) << shape.head_dim;
    const size_t n = value_order(want.block).bytes();
    AlignedBytes of_ref(n), of_set(n);
    fill_with_nan(of_ref.get(), n);
    fill_with_nan(of_set.get(), n);
    ref().latent_values(want.block, want.page(0), of_ref.get());
    kernels().latent_values(got.block, got.page(0), of_set.get());
    ASSERT_EQ(std::memcmp(of_ref.get(), of_set.get(), n), 0) << shape.head_dim;
  }
}

// Tests various numbers of rows, and sequences that end within a page, a group and a block.
TEST_P(LatentRows, AttentionMatchesRefBitForBit) {
  for (const LatentShape shape : kShapes) {
    for (const size_t n_positions : {1u, 15u, 16u, 65u, 300u}) {
      const LatentPages pages(ref(), dtype(), shape, n_positions, n_positions);
      for (const size_t n_heads : {1u, 3u, 9u}) {
        const size_t n_rows = std::min<size_t>(n_positions, n_heads == 3 ? 7 : 1);
        ASSERT_TRUE(same_bits(attend(kernels(), pages, n_heads, n_rows, 1), attend(ref(), pages, n_heads, n_rows, 1)))
            << shape.head_dim << ", " << n_positions << " positions, " << n_heads << " heads";
      }
    }
  }
}

// Computes rows alone, with other rows in the pass, and divided among threads.
TEST_P(LatentRows, ChunksAndThreadsDoNotChangeABit) {
  const LatentPages pages(kernels(), dtype(), {576, 512}, 530, 9);
  const size_t n_heads = 16, one = n_heads * 512;
  const std::vector<float> all = attend(kernels(), pages, n_heads, 40, 1);
  EXPECT_TRUE(same_bits(attend(kernels(), pages, n_heads, 40, 3), all));
  for (const size_t n_rows : {1u, 2u, 13u}) {
    EXPECT_TRUE(same_bits(attend(kernels(), pages, n_heads, n_rows, 2), std::span(all).last(n_rows * one))) << n_rows;
  }
}

// All bytes after the visible positions are 0xff, which is NaN as a float and as a scale. They must not affect a row.
TEST_P(LatentRows, InvisiblePositionsDoNotChangeResults) {
  for (const float x : attend(kernels(), LatentPages(ref(), dtype(), {160, 96}, 70, 5), 5, 3, 1)) {
    ASSERT_TRUE(std::isfinite(x));
  }
}

// Compares with attention in double over separate keys and values loaded from the stored rows.
TEST_P(LatentRows, AttentionMatchesSeparateKeysAndValues) {
  const LatentPages pages(kernels(), dtype(), {160, 96}, 270, 6);
  std::vector<std::vector<float>> keys;
  for (size_t p = 0; p < 270; ++p) {
    std::vector<float> k(160), v(96);
    kernels().kv_load(pages.block, pages.page(p / 64), p % 64, k.data(), v.data());
    EXPECT_TRUE(same_bits(v, std::span(k).first(96)));
    keys.push_back(k);
    // The parts must have separate scales: with one scale, the small part would have errors as large as the large part.
    for (size_t d = 0; d < 160; ++d) ASSERT_NEAR(k[d], pages.rows[p][d], worst(d < 96 ? 1 : 40)) << p << ", " << d;
  }
  const std::vector<float> got = attend(reference_kernels(), pages, 2, 1, 1);
  FloatSequence sequence(77);
  std::vector<float> q;
  for (size_t i = 0; i < 270 * 320; ++i) q.push_back(sequence.next() * (i % 160 < 96 ? 1.0f : 0.1f));
  for (size_t head = 0; head < 2; ++head) {
    std::vector<double> out(96);
    double sum = 0;
    for (const std::vector<float>& k : keys) {
      double score = 0;
      for (size_t d = 0; d < 160; ++d) score += double{q[269 * 320 + head * 160 + d]} * double{k[d]};
      const double weight = std::exp(score * double{0.05f});
      sum += weight;
      for (size_t d = 0; d < 96; ++d) out[d] += weight * double{k[d]};
    }
    for (size_t d = 0; d < 96; ++d) EXPECT_NEAR(got[head * 96 + d], out[d] / sum, 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(IsasAndTypes, LatentRows,
                         ::testing::Combine(::testing::ValuesIn(vector_isas()), ::testing::ValuesIn(kTypes)),
                         [](const auto& c) {
                           return std::string(isa_name(std::get<0>(c.param))) + "_" +
                                  kv_format_name(std::get<1>(c.param));
                         });

// A latent row has 576 numbers instead of a key and a value. k8v4 stores it as INT8, because it is a key.
TEST(LatentBlock, BlockHasOneRowPerPosition) {
  EXPECT_EQ(KvHeadBlock::make(KvDType::kF32, 576, 512).bytes, 64u * 576 * 4);
  EXPECT_EQ(KvHeadBlock::make(KvDType::kF16, 576, 512).bytes, 64u * 576 * 2);
  EXPECT_EQ(KvHeadBlock::make(KvDType::kInt8, 576, 512).bytes, 64u * (576 + 2 * 4));
  EXPECT_EQ(KvHeadBlock::make(KvDType::kK8V4, 576, 512).bytes, 64u * (576 + 2 * 4));
  EXPECT_EQ(KvHeadBlock::make(KvDType::kInt4, 576, 512).bytes, 64u * (576 / 2 + 576 / 32 * 4));
}

TEST(LatentBlock, CopyWritesOnlyTheRequestedRows) {
  for (const KvDType dtype : kTypes) {
    const LatentPages pages(kernels_for(Isa::kRef), dtype, {160, 96}, 64, 8);
    for (const size_t n_rows : {0u, 1u, 16u, 17u, 64u}) {
      AlignedBytes copy(pages.block.bytes);
      fill_with_nan(copy.get(), pages.block.bytes);
      const size_t copied = copy_head_rows(pages.block, pages.page(0), copy.get(), n_rows);
      EXPECT_EQ(copied, pages.block.bytes / 64 * n_rows);
      const LatentPages wanted(kernels_for(Isa::kRef), dtype, {160, 96}, std::max<size_t>(n_rows, 1), 8);
      if (n_rows == 0) continue;
      // This holds for INT4 too: a byte has two dimensions of one position, so copying a position copies whole bytes.
      EXPECT_EQ(std::memcmp(copy.get(), wanted.page(0), pages.block.bytes), 0) << kv_format_name(dtype) << n_rows;
    }
  }
}

}  // namespace
}  // namespace ibid
