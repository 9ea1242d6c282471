#include "cache/pages/kv_layout.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/cache/tiny_kv.h"

namespace ibid {
namespace {

// An FP32 or FP16 number in a page.
struct Number {
  size_t offset;
  size_t bytes;
};

// Returns the floating-point numbers of a page: all, or only the scales of a quantised part, because any code is
// finite.
std::vector<Number> numbers(const KvLayout& layout) {
  std::vector<Number> found;
  const auto add = [&](KvNumberFormat part, size_t begin, size_t scales, size_t end) {
    const bool is_coded = part == KvNumberFormat::kInt8 || part == KvNumberFormat::kInt4;
    const size_t bytes = part == KvNumberFormat::kF32 || part == KvNumberFormat::kInt8 ? 4 : 2;
    const size_t last = is_coded ? end : scales;
    for (size_t at = is_coded ? scales : begin; at < last; at += bytes) found.push_back({at, bytes});
  };
  for (const KvLayer& layer : layout.layers()) {
    const KvHeadBlock& block = layer.block;
    for (size_t head = 0; head < layer.row.n_kv_heads; ++head) {
      const size_t at = layer.offset + head * block.bytes;
      add(block.keys(), at + block.k, at + block.k_scale, at + (block.is_latent() ? block.bytes : block.v));
      if (block.is_latent()) continue;
      add(block.values(), at + block.v, at + block.v_scale, at + block.bytes);
    }
  }
  return found;
}

void expect_all_found(const KvLayout& layout) {
  KvPagePool pool(layout, 4 * layout.page_bytes());
  KvCacheEntry entry(pool);
  ASSERT_TRUE(feed(entry, random_tokens(1, 50)).ok());
  std::vector<std::byte> good(entry.page_data()[0], entry.page_data()[0] + layout.page_bytes());
  EXPECT_TRUE(rows_are_finite(layout, good.data()));
  for (const auto& [offset, bytes] : numbers(layout)) {
    const std::vector<uint32_t> bad = bytes == 2 ? std::vector<uint32_t>{0x7c00, 0xfc00, 0x7e01}
                                                 : std::vector<uint32_t>{0x7f800000, 0xff800000, 0x7fc00001};
    const uint32_t largest = bytes == 2 ? 0x7bff : 0x7f7fffff;
    std::vector<std::byte> page = good;
    for (const uint32_t word : bad) {
      std::memcpy(page.data() + offset, &word, bytes);
      ASSERT_FALSE(rows_are_finite(layout, page.data())) << offset;
    }
    std::memcpy(page.data() + offset, &largest, bytes);
    ASSERT_TRUE(rows_are_finite(layout, page.data())) << offset;
  }
}

TEST(FiniteRows, AnyNonFiniteNumberIsFound) {
  for (const KvDType dtype : kEveryKvDType) expect_all_found(tiny_layout(dtype));
}

TEST(FiniteRows, NonFiniteNumbersAreFoundInLayersOfMixedFormats) {
  const KvRowShape mixed[] = {{2, 8, 0, 0, KvRowFormat(KvNumberFormat::kF16, KvNumberFormat::kInt8)},
                              {1, 8, 0, 0, KvRowFormat(KvNumberFormat::kInt4, KvNumberFormat::kF16)}};
  expect_all_found(KvLayout::make(mixed, KvDType::kInt8));
}

TEST(FiniteRows, NonFiniteNumbersAreFoundInLatentRows) {
  const KvRowShape latent{1, 96, 0, 64};
  for (const KvDType dtype : kEveryKvDType) expect_all_found(KvLayout::make({&latent, 1}, dtype));
}

}  // namespace
}  // namespace ibid
