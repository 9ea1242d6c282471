#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/kernels/stored_pages.h"

namespace ibid {
namespace {

constexpr size_t kStoredHeadDims[] = {1, 3, 8, 16, 24, 40, 64, 80, 96, 100, 128, 256};

TEST(KvHeadBlock, PartsAreAlignedAndDoNotOverlap) {
  for (const KvRowFormat format : kKvFormats) {
    for (size_t head_dim : kStoredHeadDims) {
      const KvHeadBlock block = KvHeadBlock::make(format, head_dim);
      const auto half_bytes = [](KvNumberFormat part) {
        return part == KvNumberFormat::kF32    ? 8u
               : part == KvNumberFormat::kF16  ? 4u
               : part == KvNumberFormat::kInt8 ? 2u
                                               : 1u;
      };
      const auto scale_bytes = [&](KvNumberFormat part) {
        return part == KvNumberFormat::kInt8   ? 256u
               : part == KvNumberFormat::kInt4 ? 256u * ((head_dim + 31) / 32)
                                               : 0u;
      };
      EXPECT_GE(block.k_scale - block.k, 32 * head_dim * half_bytes(block.keys()));
      EXPECT_GE(block.v_scale - block.v, 32 * block.v_dim * half_bytes(block.values()));
      EXPECT_EQ(block.v - block.k_scale, scale_bytes(block.keys()));
      EXPECT_EQ(block.bytes - block.v_scale, scale_bytes(block.values()));
      for (size_t at : {block.k, block.k_scale, block.v, block.v_scale, block.bytes}) EXPECT_EQ(at % 64, 0u);
    }
  }
}

TEST(KvHeadBlock, EveryKvTypeHasTheExpectedSize) {
  EXPECT_EQ(KvHeadBlock::make(KvDType::kF32, 64).bytes, 2u * 64 * 64 * 4);
  EXPECT_EQ(KvHeadBlock::make(KvDType::kF16, 64).bytes, 2u * 64 * 64 * 2);
  EXPECT_EQ(KvHeadBlock::make(KvDType::kInt8, 64).bytes, 2u * 64 * (64 + 4));
  EXPECT_EQ(KvHeadBlock::make(KvDType::kK8V4, 64).bytes, 64u * (64 + 4 + 32 + 2 * 4));
  EXPECT_EQ(KvHeadBlock::make(KvDType::kInt4, 64).bytes, 2u * 64 * (32 + 2 * 4));
}

class KvStore : public ::testing::TestWithParam<Isa> {};

// Stores a whole page, its positions in a scattered order, from rows at unaligned addresses.
TEST_P(KvStore, StoreWritesTheSameBytesAsRef) {
  for (const KvRowFormat format : kKvFormats) {
    for (size_t head_dim : kStoredHeadDims) {
      const KvHeadBlock block = KvHeadBlock::make(format, head_dim);
      AlignedBytes want(block.bytes), got(block.bytes);
      FloatSequence sequence(head_dim);
      for (size_t i = 0; i < kPagePositions; ++i) {
        const size_t position = i * 37 % kPagePositions;
        const float range = i % 5 == 0 ? 1e-36f : i % 5 == 1 ? 3e4f : 2.0f;
        auto k = sequence.vector(head_dim + 1, -range, range);
        auto v = sequence.vector(head_dim + 1, -range, range);
        if (i % 7 == 0) std::fill(k.begin(), k.end(), 0.0f);
        kernels_for(Isa::kRef).kv_store(block, want.get(), position, &k[1], &v[1]);
        kernels_for(GetParam()).kv_store(block, got.get(), position, &k[1], &v[1]);
        ASSERT_EQ(std::memcmp(want.get(), got.get(), block.bytes), 0)
            << kv_format_name(format) << " head_dim " << head_dim << " position " << position;
      }
    }
  }
}

TEST_P(KvStore, StoreChangesOnlyTheGivenPosition) {
  for (const KvRowFormat format : kKvFormats) {
    const KvHeadBlock block = KvHeadBlock::make(format, 40);
    AlignedBytes page(block.bytes);
    FloatSequence sequence(9);
    const auto k = sequence.vector(40), v = sequence.vector(40);
    std::vector<float> k0(40), v0(40), k1(40), v1(40);
    for (size_t p : {0u, 15u, 16u, 63u}) kernels_for(GetParam()).kv_store(block, page.get(), p, &k[0], &v[0]);
    kernels_for(GetParam()).kv_load(block, page.get(), 15, k0.data(), v0.data());
    const auto other = sequence.vector(40);
    kernels_for(GetParam()).kv_store(block, page.get(), 14, &other[0], &other[0]);
    kernels_for(GetParam()).kv_load(block, page.get(), 15, k1.data(), v1.data());
    EXPECT_TRUE(same_bits(k0, k1));
    EXPECT_TRUE(same_bits(v0, v1));
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, KvStore, ::testing::ValuesIn(vector_isas()),
                         [](const auto& isa) { return std::string(isa_name(isa.param)); });

// Returns half a quantisation step of x[d] in stored form: in half precision 2^-12 relative, in INT8 max / 254, in INT4
// (max - min) / 30 of the group, plus the error of rounding scale and minimum to halves.
float half_step(KvNumberFormat part, const std::vector<float>& x, size_t d) {
  if (part == KvNumberFormat::kF32) return 0.0f;
  if (part == KvNumberFormat::kF16) return std::fabs(x[d]) / 2048;
  if (part == KvNumberFormat::kInt4) {
    const auto first = x.begin() + static_cast<ptrdiff_t>(d / kNibbleGroup * kNibbleGroup);
    const auto last = x.begin() + static_cast<ptrdiff_t>(std::min(x.size(), (d / kNibbleGroup + 1) * kNibbleGroup));
    const auto [low, high] = std::minmax_element(first, last);
    return (*high - *low) / 30 + (std::fabs(*low) + *high - *low) / 1024;
  }
  float largest = 0;
  for (const float y : x) largest = std::max(largest, std::fabs(y));
  return largest / 253;
}

TEST(KvLoad, RoundTripErrorIsAtMostHalfAStep) {
  const Kernels& ref = kernels_for(Isa::kRef);
  for (const KvRowFormat format : kKvFormats) {
    for (size_t head_dim : kStoredHeadDims) {
      StoredPages pages(ref, format, 1, head_dim, 64, head_dim);
      std::vector<float> k(head_dim), v(head_dim);
      for (size_t p = 0; p < 64; ++p) {
        ref.kv_load(pages.block, pages.head(0, 0), p, k.data(), v.data());
        std::vector<float> exact_k(pages.k(p, 0), pages.k(p, 0) + head_dim);
        std::vector<float> exact_v(pages.v(p, 0), pages.v(p, 0) + head_dim);
        for (std::vector<float>* x : {&k, &exact_k}) {
          if (is_coded(format.keys)) ref.hadamard(x->data(), head_dim);
        }
        for (std::vector<float>* x : {&v, &exact_v}) {
          if (is_coded(format.values)) ref.hadamard(x->data(), head_dim);
        }
        for (size_t d = 0; d < head_dim; ++d) {
          ASSERT_NEAR(k[d], exact_k[d], half_step(pages.block.keys(), exact_k, d));
          ASSERT_NEAR(v[d], exact_v[d], half_step(pages.block.values(), exact_v, d));
        }
      }
    }
  }
}

TEST(KvLoad, StoringLoadedRowsChangesNothing) {
  const Kernels& ref = kernels_for(Isa::kRef);
  StoredPages pages(ref, KvDType::kF16, 1, 64, 64, 3);
  const KvHeadBlock& block = pages.block;
  std::vector<std::byte> before(pages.head(0, 0), pages.head(0, 0) + block.bytes);
  std::vector<float> k(64), v(64);
  for (size_t p = 0; p < 64; ++p) {
    ref.kv_load(block, pages.head(0, 0), p, k.data(), v.data());
    ref.kv_store(block, pages.head(0, 0), p, k.data(), v.data());
  }
  EXPECT_EQ(std::memcmp(before.data(), pages.head(0, 0), block.bytes), 0);
}

TEST(KvStoreLimits, ValuesBeyondHalfPrecisionSaturate) {
  const KvHeadBlock block = KvHeadBlock::make(KvDType::kF16, 16);
  AlignedBytes page(block.bytes);
  const std::vector<float> x(16, 1e6f), y(16, -1e6f);
  std::vector<float> k(16), v(16);
  std::vector<Isa> isas = vector_isas();
  isas.push_back(Isa::kRef);
  for (Isa isa : isas) {
    kernels_for(isa).kv_store(block, page.get(), 5, x.data(), y.data());
    kernels_for(isa).kv_load(block, page.get(), 5, k.data(), v.data());
    EXPECT_EQ(k[3], 65504.0f);
    EXPECT_EQ(v[3], -65504.0f);
  }
}

}  // namespace
}  // namespace ibid
