#include "cache/pages/finite_rows.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/cache/tiny_kv.h"

namespace ibid {
namespace {

// The cells of a page that hold numbers of their own: all but those of INT8, whose scales are.
std::vector<size_t> float_offsets(const KvLayout& layout) {
  const size_t bytes = layout.dtype() == KvDType::kF16 ? 2 : 4;
  std::vector<size_t> offsets;
  const auto add = [&](size_t begin, size_t n) {
    for (size_t i = 0; i < n; ++i) offsets.push_back(begin + i * bytes);
  };
  for (const KvLayer& layer : layout.layers()) {
    const KvHeadBlock& block = layer.block;
    for (size_t head = 0; head < layer.row.n_kv_heads; ++head) {
      const size_t begin = layer.offset + head * layer.block.bytes;
      const bool int8 = block.dtype == KvDType::kInt8;
      add(begin + (int8 ? block.k_scale : block.k), int8 ? kPagePositions : kPagePositions * block.head_dim);
      add(begin + (int8 ? block.v_scale : block.v), int8 ? kPagePositions : kPagePositions * block.v_dim);
    }
  }
  return offsets;
}

TEST(FiniteRows, OneBadNumberAnywhereIsFound) {
  for (const KvDType dtype : {KvDType::kF32, KvDType::kF16, KvDType::kInt8}) {
    const KvLayout layout = tiny_layout(dtype);
    KvPagePool pool(layout, 4 * layout.page_bytes());
    KvCacheEntry entry(pool);
    ASSERT_TRUE(feed(entry, random_tokens(1, 50)).ok());
    std::vector<std::byte> good(entry.page_data()[0], entry.page_data()[0] + layout.page_bytes());
    EXPECT_TRUE(rows_are_finite(layout, good.data()));
    const size_t bytes = dtype == KvDType::kF16 ? 2 : 4;
    const std::vector<uint32_t> bad = dtype == KvDType::kF16 ? std::vector<uint32_t>{0x7c00, 0xfc00, 0x7e01}
                                                             : std::vector<uint32_t>{0x7f800000, 0xff800000, 0x7fc00001};
    const uint32_t largest = dtype == KvDType::kF16 ? 0x7bff : 0x7f7fffff;
    for (const size_t offset : float_offsets(layout)) {
      std::vector<std::byte> page = good;
      for (const uint32_t word : bad) {
        std::memcpy(page.data() + offset, &word, bytes);
        ASSERT_FALSE(rows_are_finite(layout, page.data())) << offset;
      }
      std::memcpy(page.data() + offset, &largest, bytes);
      ASSERT_TRUE(rows_are_finite(layout, page.data())) << offset;
    }
  }
}

}  // namespace
}  // namespace ibid
