#include "base/arena.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <utility>

namespace ibid {
namespace {

bool aligned(const void* p, size_t alignment) { return reinterpret_cast<uintptr_t>(p) % alignment == 0; }

TEST(Arena, AllocatesAlignedZeroedBlocksUntilFull) {
  Result<Arena> arena = Arena::create(1000);
  ASSERT_TRUE(arena.ok());
  EXPECT_EQ(arena->capacity(), 1024u);
  const std::span<float> a = arena->allocate_array<float>(3);
  std::byte* b = arena->allocate(1);
  EXPECT_TRUE(aligned(a.data(), kCacheLine));
  EXPECT_EQ(b - reinterpret_cast<std::byte*>(a.data()), static_cast<ptrdiff_t>(Arena::padded(12)));
  EXPECT_EQ(arena->used(), Arena::padded(12) + Arena::padded(1));
  for (const float x : a) EXPECT_EQ(x, 0.0f);
  const size_t n_left = arena->capacity() - arena->used() - Arena::padded(0);
  std::byte* rest = arena->allocate(n_left);
  rest[n_left - 1] = std::byte{1};
  EXPECT_EQ(arena->used(), arena->capacity());
}

TEST(Arena, LargeArenasStartOnAHugePage) {
  constexpr size_t kBytes = (size_t{5} << 20) + 1;
  Result<Arena> arena = Arena::create(Arena::padded(kBytes));
  ASSERT_TRUE(arena.ok());
  std::byte* all = arena->allocate(kBytes);
  EXPECT_TRUE(aligned(all, size_t{2} << 20));
  all[0] = std::byte{1};
  all[kBytes - 1] = std::byte{2};
}

TEST(Arena, ImpossibleSizesReturnOutOfMemory) {
  for (const size_t bytes : {std::numeric_limits<size_t>::max(), std::numeric_limits<size_t>::max() - 100,
                             std::numeric_limits<size_t>::max() / 2 + 1}) {
    const Result<Arena> arena = Arena::create(bytes);
    EXPECT_EQ(arena.status().code(), ErrorCode::kOutOfMemory);
    EXPECT_NE(arena.status().message().find(std::to_string(bytes)), std::string::npos);
  }
}

TEST(Arena, MoveKeepsTheMemory) {
  Result<Arena> made = Arena::create(4096);
  ASSERT_TRUE(made.ok());
  Arena a = std::move(*made);
  std::byte* p = a.allocate(64);
  Arena b;
  EXPECT_EQ(b.capacity(), 0u);
  b = std::move(a);
  *p = std::byte{7};
  EXPECT_EQ(b.allocate(64), p + Arena::padded(64));
  EXPECT_EQ(Arena::padded(65), Arena::padded(128));
}

TEST(ArenaDeathTest, AllocationBeyondCapacityFailsACheck) {
  Result<Arena> arena = Arena::create(2 * Arena::padded(64));
  ASSERT_TRUE(arena.ok());
  arena->allocate(64);
  EXPECT_DEATH(arena->allocate(65), "CHECK failed");
  EXPECT_DEATH(arena->allocate(std::numeric_limits<size_t>::max()), "CHECK failed");
  EXPECT_DEATH(arena->allocate_array<double>(std::numeric_limits<size_t>::max() / 4), "CHECK failed");
}

#ifdef IBID_MARKS_MEMORY

TEST(ArenaDeathTest, AccessOutsideABlockIsReported) {
  Result<Arena> arena = Arena::create(4096);
  ASSERT_TRUE(arena.ok());
  volatile std::byte* whole_lines = arena->allocate(128);
  volatile std::byte* odd = arena->allocate(13);
  whole_lines[127] = odd[12] = std::byte{1};
  EXPECT_DEATH(whole_lines[128] = std::byte{1}, "use-after-poison");
  EXPECT_DEATH(odd[13] = std::byte{1}, "use-after-poison");
  EXPECT_DEATH(odd[-1] = std::byte{1}, "use-after-poison");
  EXPECT_DEATH(odd[200] = std::byte{1}, "use-after-poison") << "not allocated yet";
}

#endif

}  // namespace
}  // namespace ibid
