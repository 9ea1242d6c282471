#include "cache/pages/kv_layout.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "tests/cache/tiny_kv.h"

namespace ibid {
namespace {

TEST(KvLayout, PageCountRoundsUpWithoutOverflow) {
  EXPECT_EQ(KvLayout::pages_for(0), 0u);
  EXPECT_EQ(KvLayout::pages_for(1), 1u);
  EXPECT_EQ(KvLayout::pages_for(64), 1u);
  EXPECT_EQ(KvLayout::pages_for(65), 2u);
  EXPECT_EQ(KvLayout::pages_for(std::numeric_limits<size_t>::max()), (size_t{1} << 58));
}

TEST(KvLayout, LayerAndHeadOffsetsFillThePageWithoutGaps) {
  const KvRowShape differ[] = {{2, 8}, {1, 24}, {3, 6}};
  for (const KvLayout& layout : {tiny_layout(KvDType::kInt8), KvLayout::make(differ, KvDType::kInt8)}) {
    size_t expected = 0;
    for (const KvLayer& layer : layout.layers()) {
      EXPECT_EQ(layer.offset, expected);
      for (size_t head = 0; head < layer.row.n_kv_heads; ++head) {
        EXPECT_EQ(layer.offset + head * layer.block.bytes, expected);
        expected += KvHeadBlock::make(KvDType::kInt8, layer.row.head_dim).bytes;
      }
    }
    EXPECT_EQ(layout.page_bytes(), expected);
  }
  EXPECT_TRUE(tiny_layout(KvDType::kF16).layers_are_alike());
  EXPECT_FALSE(KvLayout::make(differ, KvDType::kF16).layers_are_alike());
}

class CopyRows : public testing::TestWithParam<KvDType> {};

// Copying n positions copies exactly these and changes no other byte, because the rest must not depend on the source
// page.
TEST_P(CopyRows, CopyWritesOnlyTheRequestedRows) {
  const KvRowShape differ[] = {{2, 8},
                               {1, 24, 0, 0, KvRowFormat(KvNumberFormat::kF16, KvNumberFormat::kInt8)},
                               {3, 6, 0, 0, KvRowFormat(KvNumberFormat::kInt4, KvNumberFormat::kF16)}};
  const Tokens tokens = random_tokens(1, kPagePositions);
  for (const KvLayout& layout : {tiny_layout(GetParam()), KvLayout::make(differ, GetParam())}) {
    KvPagePool pool(layout, 3 * layout.page_bytes());
    KvCacheEntry full(pool);
    ASSERT_TRUE(feed(full, tokens).ok());
    for (size_t n = 0; n <= kPagePositions; ++n) {
      KvCacheEntry expected(pool);
      ASSERT_TRUE(feed(expected, TokenSpan(tokens).first(n)).ok());
      KvPage copy = pool.allocate().value();
      layout.copy_rows(full.parts(0), copy.parts(), n);
      if (n == 0) {
        ASSERT_TRUE(expected.reserve(1).ok());
      }
      ASSERT_EQ(std::memcmp(copy.data(), expected.page_data()[0], layout.page_bytes()), 0) << n << " rows";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllTypes, CopyRows, testing::ValuesIn(kEveryKvDType));

}  // namespace
}  // namespace ibid
