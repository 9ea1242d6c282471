#include "kernels/layout/kv_head_block.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

#include "kernels/ops/dispatch.h"
#include "tests/kernels/stored_pages.h"

namespace ibid {
namespace {

constexpr size_t kPartHeadDims[] = {1, 4, 7, 16, 64, 80, 128};

// The numbers of a part do not overlap and fill it completely.
TEST(KvPartOrder, AddressesFillThePartWithoutOverlap) {
  for (const KvRowFormat format : kKvFormats) {
    for (const size_t head_dim : kPartHeadDims) {
      const KvHeadBlock block = KvHeadBlock::make(format, head_dim);
      for (const bool keys : {true, false}) {
        const KvPartOrder order = keys ? key_order(block) : value_order(block);
        const size_t n_dims = order.n_cells * order.cell_dims(), element = size_t{1} << order.element_bits;
        const size_t n_numbers = n_dims * (order.paired() ? 2 : 1);
        EXPECT_GE(n_numbers, head_dim);
        std::set<size_t> places, halves;  // byte offsets; and offsets of half bytes, if two numbers share a byte
        for (size_t position = 0; position < kPagePositions; ++position) {
          for (size_t d = 0; d < n_numbers; ++d) {
            places.insert(order.at(position, d));
            halves.insert(2 * order.at(position, d) + (order.is_high(d) ? 1 : 0));
          }
        }
        ASSERT_EQ(halves.size(), kPagePositions * n_numbers);
        ASSERT_EQ(places.size(), kPagePositions * n_dims);
        EXPECT_EQ(*places.begin(), order.offset);
        EXPECT_EQ(*places.rbegin() + element, order.offset + order.bytes());
        EXPECT_EQ(order.bytes(), places.size() * element);
      }
    }
  }
}

// Addresses follow the layouts in kv_head_block.h and docs/kv_cache.md.
TEST(KvPartOrder, AddressesMatchTheDocumentedLayouts) {
  const KvHeadBlock f16 = KvHeadBlock::make(KvDType::kF16, 8);
  EXPECT_EQ(key_order(f16).at(17, 3), f16.k + 2 * ((1 * 8 + 3) * 16 + 1));  // [4][head_dim][16]
  EXPECT_EQ(value_order(f16).at(17, 3), f16.v + 2 * (17 * 16 + 3));         // [64][v_dim]
  const KvHeadBlock int8 = KvHeadBlock::make(KvDType::kInt8, 8);
  EXPECT_EQ(key_order(int8).at(17, 6), int8.k + ((1 * 2 + 1) * 16 + 1) * 4 + 2);  // [4][k_dim / 4][16][4]
  EXPECT_EQ(value_order(int8).at(17, 6), int8.v + (4 * 16 + 6) * 4 + 1);          // [16][v_dim][4]
  const KvHeadBlock int4 = KvHeadBlock::make(KvDType::kInt4, 64);
  EXPECT_EQ(key_order(int4).at(17, 14), int4.k + ((1 * 8 + 1) * 16 + 1) * 4 + 2);  // [4][k_dim / 8][16][4]
  EXPECT_TRUE(key_order(int4).is_high(14) && !key_order(int4).is_high(10));
  EXPECT_EQ(value_order(int4).at(17, 51), int4.v + ((4 * 2 + 1) * 16 + 3) * 4 + 1);  // [16][head_dim / 32][16][4]
  EXPECT_TRUE(value_order(int4).is_high(51) && !value_order(int4).is_high(35));
}

// Copied rows equal the original ones, and the rest of the block does not change.
TEST(KvPartOrder, CopyWritesOnlyTheRequestedRows) {
  const Kernels& kernels = kernels_for(Isa::kRef);
  for (const KvRowFormat format : kKvFormats) {
    for (const size_t head_dim : kPartHeadDims) {
      const KvHeadBlock block = KvHeadBlock::make(format, head_dim);
      std::vector<std::byte> from(block.bytes);
      for (size_t position = 0; position < kPagePositions; ++position) {
        std::vector<float> k(head_dim), v(head_dim);
        for (size_t d = 0; d < head_dim; ++d) {
          k[d] = static_cast<float>(position * head_dim + d + 1) / 16.0f;
          v[d] = -k[d];
        }
        kernels.kv_store(block, from.data(), position, k.data(), v.data());
      }
      for (const size_t n_rows : {0, 1, 3, 4, 15, 16, 17, 50, 64}) {
        std::vector<std::byte> to(block.bytes, std::byte{0xaa});
        copy_head_rows(block, from.data(), to.data(), n_rows);
        for (size_t position = 0; position < kPagePositions; ++position) {
          for (size_t d = 0; d < head_dim; ++d) {
            for (const KvPartOrder& order : {key_order(block), value_order(block)}) {
              const size_t at = order.at(position, d);
              const std::byte wanted = position < n_rows ? from[at] : std::byte{0xaa};
              ASSERT_EQ(to[at], wanted) << n_rows << ", " << position << ", " << d;
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace ibid
