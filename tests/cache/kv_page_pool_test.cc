#include "cache/pages/kv_page_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "base/memory_marks.h"
#include "tests/cache/nan_page_pool.h"
#include "tests/cache/tiny_kv.h"

namespace ibid {
namespace {

const KvLayout kLayout = tiny_layout(KvDType::kF32);

bool all_bytes_are(const KvPage& page, std::byte value) {
  const std::byte* data = page.data();
  return std::all_of(data, data + kLayout.page_bytes(), [&](std::byte b) { return b == value; });
}

TEST(KvPagePool, AllocatesAlignedZeroedDistinctPages) {
  KvPagePool pool(kLayout, 5 * kLayout.page_bytes());
  std::vector<KvPage> pages = pool.allocate(5).value();
  std::set<const std::byte*> addresses;
  for (const KvPage& page : pages) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(page.data()) % 64, 0u);
    EXPECT_TRUE(all_bytes_are(page, std::byte{0}));
    std::memset(page.data(), 0x55, kLayout.page_bytes());
    addresses.insert(page.data());
  }
  EXPECT_EQ(addresses.size(), 5u);
  for (const KvPage& page : pages) EXPECT_TRUE(all_bytes_are(page, std::byte{0x55}));
}

TEST(KvPagePool, PageHoldersAndBytesAreCounted) {
  KvPagePool pool(kLayout, 3 * kLayout.page_bytes() + 1);
  EXPECT_EQ(pool.budget_pages(), 3u);
  KvPage a = pool.allocate().value();
  KvPage b = a;
  EXPECT_EQ(a.use_count(), 2u);
  EXPECT_TRUE(a == b);
  KvPage c = std::move(b);
  EXPECT_FALSE(static_cast<bool>(b));  // NOLINT: a moved-from handle is empty by contract
  EXPECT_EQ(a.use_count(), 2u);
  EXPECT_EQ(pool.pages_in_use(), 1u);
  c = KvPage();
  EXPECT_EQ(a.use_count(), 1u);
  a = KvPage();
  EXPECT_EQ(a.use_count(), 0u);
  EXPECT_EQ(pool.bytes_in_use(), 0u);
  EXPECT_EQ(pool.peak_bytes(), kLayout.page_bytes());
}

TEST(KvPagePool, AssigningAHandleToItselfKeepsThePage) {
  KvPagePool pool(kLayout, kLayout.page_bytes());
  KvPage page = pool.allocate().value();
  page.data()[0] = std::byte{7};
  const KvPage& same = page;
  page = same;
  EXPECT_EQ(page.use_count(), 1u);
  EXPECT_EQ(page.data()[0], std::byte{7});
}

TEST(KvPagePool, ReusedPagesAreZeroAgain) {
  KvPagePool pool(kLayout, 2 * kLayout.page_bytes());
  KvPage page = pool.allocate().value();
  const std::byte* address = page.data();
  std::memset(page.data(), 0xab, kLayout.page_bytes());
  page = KvPage();
  page = pool.allocate().value();
  EXPECT_EQ(page.data(), address) << "memory that was used before is reused first";
  EXPECT_TRUE(all_bytes_are(page, std::byte{0}));
}

TEST(KvPagePool, FreedPagesAreZeroedAtOnceAndHeldPagesKeepTheirBytes) {
  KvPagePool pool(kLayout, 3 * kLayout.page_bytes());
  std::vector<KvPage> pages = pool.allocate(3).value();
  for (const KvPage& page : pages) std::memset(page.data(), 0xab, kLayout.page_bytes());
  const std::byte* freed = pages[1].data();
  pages.erase(pages.begin() + 1);
  allow_memory(freed, kLayout.page_bytes());  // AddressSanitizer must allow this test to read a freed page
  EXPECT_TRUE(std::all_of(freed, freed + kLayout.page_bytes(), [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_TRUE(all_bytes_are(pages[0], std::byte{0xab}));
  EXPECT_TRUE(all_bytes_are(pages[1], std::byte{0xab}));
  EXPECT_TRUE(pool.allocate().ok());
}

TEST(KvPagePool, NanPagePoolAllocatesNansAndFreesZeros) {
  NanPagePool pool(kLayout, kLayout.page_bytes());
  const std::byte* data = nullptr;
  {
    const KvPage page = pool.allocate().value();
    EXPECT_TRUE(all_bytes_are(page, std::byte{0xff}));
    data = page.data();
  }
  allow_memory(data, kLayout.page_bytes());
  EXPECT_TRUE(std::all_of(data, data + kLayout.page_bytes(), [](std::byte b) { return b == std::byte{0}; }));
}

TEST(KvPagePool, AllocatesAllOrNothingAtTheBudget) {
  KvPagePool pool(kLayout, 3 * kLayout.page_bytes());
  const std::vector<KvPage> held = pool.allocate(2).value();
  const Result<std::vector<KvPage>> refused = pool.allocate(2);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), ErrorCode::kOutOfMemory);
  EXPECT_THAT(refused.status().message(), testing::HasSubstr(std::to_string(pool.budget_bytes())));
  EXPECT_EQ(pool.pages_in_use(), 2u);
  EXPECT_TRUE(pool.allocate(1).ok());
  EXPECT_EQ(pool.peak_bytes(), 3 * kLayout.page_bytes());
}

TEST(KvPagePool, AllocationWithoutBudgetFails) {
  KvPagePool nothing(kLayout, 0), too_little(kLayout, kLayout.page_bytes() - 1);
  EXPECT_EQ(nothing.allocate().status().code(), ErrorCode::kOutOfMemory);
  EXPECT_EQ(too_little.allocate().status().code(), ErrorCode::kOutOfMemory);
  EXPECT_TRUE(nothing.allocate(0).ok());
}

TEST(KvPagePool, LargeBudgetReservesNoMemoryUpFront) {
  KvPagePool pool(kLayout, size_t{1} << 44);
  EXPECT_EQ(pool.reserved_bytes(), 0u);
  const KvPage page = pool.allocate().value();
  EXPECT_GE(pool.reserved_bytes(), kLayout.page_bytes());
  EXPECT_LE(pool.reserved_bytes(), size_t{64} << 20);
}

TEST(KvPagePool, ReclaimsOnlyTheMissingBytes) {
  KvPagePool pool(kLayout, 4 * kLayout.page_bytes());
  std::vector<KvPage> cached = pool.allocate(3).value();
  std::vector<size_t> asked;
  const auto cache = pool.add_reclaimer([&](size_t bytes) {
    const size_t n = bytes / kLayout.page_bytes();
    asked.push_back(n);
    if (n > cached.size()) return false;
    cached.resize(cached.size() - n);
    return true;
  });
  const std::vector<KvPage> first = pool.allocate(3).value();
  EXPECT_THAT(asked, testing::ElementsAre(2u));
  EXPECT_EQ(cached.size(), 1u);
  EXPECT_EQ(pool.allocate(2).status().code(), ErrorCode::kOutOfMemory);
  EXPECT_EQ(cached.size(), 1u) << "an impossible request frees nothing";
  EXPECT_EQ(pool.allocate(5).status().code(), ErrorCode::kOutOfMemory);
  EXPECT_THAT(asked, testing::ElementsAre(2u, 2u)) << "a request beyond the budget calls no reclaimer";
}

TEST(KvPagePool, PoolReservesMemorySlabBySlab) {
  const KvLayout large = KvLayout::make(4000, 2, 8, KvDType::kF32);  // two pages of 30 MB fill a slab
  KvPagePool pool(large, 7 * large.page_bytes());
  const KvPage first = pool.allocate().value();
  const size_t slab = pool.reserved_bytes();
  EXPECT_LT(slab, pool.budget_bytes());
  const std::vector<KvPage> rest = pool.allocate(6).value();
  EXPECT_EQ(pool.reserved_bytes(), 7 * large.page_bytes());
  std::set<const std::byte*> addresses{first.data()};
  for (const KvPage& page : rest) addresses.insert(page.data());
  EXPECT_EQ(addresses.size(), 7u);
}

TEST(KvPagePool, ConcurrentAllocationsGetZeroedPages) {
  constexpr int kThreads = 4, kRounds = 2000;
  KvPagePool pool(kLayout, 6 * kLayout.page_bytes());
  std::vector<std::thread> threads;
  std::atomic<int> refused{0}, dirty{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        Result<std::vector<KvPage>> pages = pool.allocate(1 + static_cast<size_t>(i % 2));
        if (!pages.ok()) {
          ++refused;
          continue;
        }
        const KvPage shared = pages->front();
        if (shared.data()[0] != std::byte{0}) ++dirty;
        shared.data()[0] = static_cast<std::byte>(t + 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(dirty, 0);
  EXPECT_EQ(pool.pages_in_use(), 0u);
  EXPECT_LE(pool.peak_bytes(), pool.budget_bytes());
}

#ifdef IBID_MARKS_MEMORY

TEST(KvPagePoolDeathTest, AccessToAFreedPageIsReported) {
  KvPagePool pool(kLayout, 2 * kLayout.page_bytes());
  KvPage page = pool.allocate().value();
  volatile std::byte* data = page.data();
  data[kLayout.page_bytes() - 1] = std::byte{1};
  EXPECT_DEATH(data[kLayout.page_bytes()] = std::byte{1}, "use-after-poison") << "after the page";
  page = KvPage();
  EXPECT_DEATH((void)data[0], "use-after-poison");
}

#endif

TEST(KvPagePoolDeathTest, PagesMustNotOutliveThePool) {
  EXPECT_DEATH(
      {
        KvPage page;
        KvPagePool pool(kLayout, kLayout.page_bytes());
        page = pool.allocate().value();
      },
      "outlive");
}

TEST(KvPagePool, ReclaimersAreCalledInOrderAndThenAgainFromTheFirst) {
  KvPagePool pool(kLayout, 4 * kLayout.page_bytes());
  std::vector<KvPage> cached = *pool.allocate(1), spare = *pool.allocate(3);
  std::vector<std::string> asked;
  const auto cache = pool.add_reclaimer([&](size_t bytes) {
    const size_t n = bytes / kLayout.page_bytes();
    asked.push_back("cache " + std::to_string(n));
    if (n > cached.size()) return false;
    cached.resize(cached.size() - n);
    return true;
  });
  const auto waiting = pool.add_reclaimer([&](size_t bytes) {
    const size_t n = bytes / kLayout.page_bytes();
    asked.push_back("waiting " + std::to_string(n));
    if (spare.empty()) return false;
    spare.pop_back();
    return true;
  });
  const std::vector<KvPage> two = *pool.allocate(2);
  EXPECT_THAT(asked, testing::ElementsAre("cache 2", "waiting 2", "cache 1"));
  asked.clear();
  EXPECT_EQ(pool.allocate(3).status().code(), ErrorCode::kOutOfMemory);
  EXPECT_THAT(asked, testing::ElementsAre("cache 3", "waiting 3", "cache 2", "waiting 2", "cache 1", "waiting 1"));
  EXPECT_EQ(pool.pages_in_use(), 2u) << "pages freed in vain stay free";
}

TEST(KvPagePool, UnregisteredReclaimersAreNotCalled) {
  KvPagePool pool(kLayout, kLayout.page_bytes());
  const KvPage held = *pool.allocate();
  int first_asked = 0, second_asked = 0;
  KvPagePool::Registration first = pool.add_reclaimer([&](size_t) { return ++first_asked < 0; });
  {
    const auto second = pool.add_reclaimer([&](size_t) { return ++second_asked < 0; });
    KvPagePool::Registration moved = std::move(first);
    EXPECT_FALSE(pool.allocate().ok());
    first = std::move(moved);
  }
  EXPECT_FALSE(pool.allocate().ok());
  EXPECT_EQ(first_asked, 2);
  EXPECT_EQ(second_asked, 1);
  first = {};
  EXPECT_FALSE(pool.allocate().ok());
  EXPECT_EQ(first_asked, 2);
}

}  // namespace
}  // namespace ibid
