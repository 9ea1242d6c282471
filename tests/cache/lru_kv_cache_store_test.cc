#include "cache/store/lru_kv_cache_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/memory_marks.h"
#include "tests/cache/store_fixture.h"

namespace ibid {
namespace {

using testing::IsEmpty;

TEST_F(LruKvCacheStoreTest, FindsNothingInEmptyStoreOrForNoTokens) {
  EXPECT_EQ(find({}), 0u);
  EXPECT_EQ(find(random_tokens(1, 100)), 0u);
  KvCacheEntry empty(pool_);
  EXPECT_TRUE(store_.insert(kAlice, empty).ok());
  EXPECT_EQ(store_.stats().pages, 0u);
  store(random_tokens(1, 100));
  EXPECT_EQ(find({}), 0u);
}

// Tests every stored length with every requested length around page boundaries: shorter, equal, longer.
TEST_F(LruKvCacheStoreTest, FindsPrefixesAroundPageBoundaries) {
  const Tokens tokens = random_tokens(2, 200);
  const std::vector<size_t> lengths{1, 2, 63, 64, 65, 127, 128, 129};
  for (const size_t stored : lengths) {
    store(TokenSpan(tokens).first(stored));
    for (const size_t asked : lengths) {
      EXPECT_EQ(find(TokenSpan(tokens).first(asked)), std::min(stored, asked)) << stored << ' ' << asked;
      Tokens other = tokens;
      other[asked] ^= 1;
      EXPECT_EQ(find(other), std::min(stored, asked)) << "diverges at " << asked;
    }
    store_.clear(kAlice);
    EXPECT_EQ(store_.stats().pages, 0u);
  }
}

TEST_F(LruKvCacheStoreTest, PrefixOneTokenShorterThanAPageIsFound) {
  const Tokens tokens = random_tokens(3, 64);
  store(tokens);
  EXPECT_EQ(find(TokenSpan(tokens).first(63)), 63u) << "one token is left to feed for logits";
}

TEST_F(LruKvCacheStoreTest, HitSharesPagesAndCopiesAtMostThePartialPage) {
  const Tokens tokens = random_tokens(4, 200);
  store(tokens);
  const size_t pages = pool_.pages_in_use();
  Tokens prompt = tokens;
  prompt[150] ^= 1;
  PrefixHit hit = store_.find_longest_prefix(kAlice, prompt);
  ASSERT_EQ(hit.length(), 150u);
  EXPECT_EQ(pool_.pages_in_use(), pages);
  EXPECT_EQ(pool_.bytes_copied(), 0u);
  ASSERT_TRUE(feed(hit.entry, TokenSpan(prompt).subspan(150)).ok());
  EXPECT_EQ(hit.entry.pages_copied(), 1u);
  EXPECT_LT(pool_.bytes_copied(), layout_.page_bytes());
  EXPECT_EQ(read_rows(hit.entry), fresh_rows(layout_, prompt));
  EXPECT_EQ(find(tokens), 200u) << "the stored sequence is unchanged";
}

// In a turn after 4,000 stored tokens, the store only compares tokens and counts references, and copies one partial
// page.
TEST(LruKvCacheStoreWarm, HitOfFourThousandTokensCopiesOnlyThePartialPage) {
  const KvLayout layout = tiny_layout(KvDType::kInt8);
  KvPagePool pool(layout, 200 * layout.page_bytes());
  LruKvCacheStore store(pool, size_t{1} << 30);
  const Tokens tokens = random_tokens(70, 4000);
  {
    KvCacheEntry entry(pool);
    ASSERT_TRUE(feed(entry, tokens).ok());
    ASSERT_TRUE(store.insert(kAlice, entry).ok());
  }
  const size_t pages = pool.pages_in_use();
  const PrefixTree::Work before = store.work();
  PrefixHit hit = store.find_longest_prefix(kAlice, TokenSpan(tokens).first(3999));
  ASSERT_EQ(hit.length(), 3999u);
  EXPECT_EQ(pool.bytes_copied(), 0u);
  EXPECT_EQ(pool.pages_in_use(), pages);
  EXPECT_LE(store.work().tokens_compared - before.tokens_compared, 3999u + KvLayout::pages_for(3999));
  EXPECT_LE(store.work().pages_touched - before.pages_touched, KvLayout::pages_for(3999) + 1);
  ASSERT_TRUE(hit.entry.reserve(1).ok());
  EXPECT_EQ(hit.entry.pages_copied(), 1u);
  EXPECT_EQ(pool.pages_in_use(), pages + 1);
  EXPECT_LE(pool.bytes_copied(), layout.page_bytes() * (3999 % 64) / 64);
  ASSERT_TRUE(feed(hit.entry, TokenSpan(tokens).last(1)).ok());
  EXPECT_EQ(hit.entry.pages_copied(), 1u);
}

TEST_F(LruKvCacheStoreTest, EntriesInUseAreFoundAndStayUnchanged) {
  const Tokens tokens = random_tokens(5, 100), more = random_tokens(6, 50), other = random_tokens(7, 80);
  KvCacheEntry live = fed(tokens);
  ASSERT_TRUE(store_.insert(kAlice, live).ok());
  PrefixHit hit = store_.find_longest_prefix(kAlice, concat(tokens, other));
  ASSERT_EQ(hit.length(), 100u);
  ASSERT_TRUE(feed(live, more).ok());
  ASSERT_TRUE(feed(hit.entry, other).ok());
  EXPECT_EQ(read_rows(live), fresh_rows(layout_, concat(tokens, more)));
  EXPECT_EQ(read_rows(hit.entry), fresh_rows(layout_, concat(tokens, other)));
}

// Pages whose tokens a weak or truncated hash would confuse: permutations, equal sums and xors, equal ends.
TEST_F(LruKvCacheStoreTest, PagesWithSimilarTokensKeepTheirOwnRows) {
  Tokens page = random_tokens(8, 64);
  std::vector<Tokens> lookalikes{page};
  std::swap(page[10], page[40]);
  lookalikes.push_back(page);
  std::reverse(page.begin(), page.end());
  lookalikes.push_back(page);
  page[30] += 1;
  page[31] -= 1;
  lookalikes.push_back(page);
  page[32] ^= 0x10000;
  page[33] ^= 0x10000;
  lookalikes.push_back(page);
  lookalikes.push_back(Tokens(64, 0));
  lookalikes.push_back(Tokens(64, -1));
  const Tokens tail = random_tokens(9, 20);
  for (const Tokens& ids : lookalikes) store(concat(ids, tail));
  for (const Tokens& ids : lookalikes) {
    EXPECT_EQ(find(concat(ids, tail)), 84u);
  }
}

TEST_F(LruKvCacheStoreTest, FindsTheLongestMatchAmongManySiblings) {
  const Tokens head = random_tokens(10, 64), tail = random_tokens(11, 40);
  for (size_t n = 0; n < 12; ++n) {
    Tokens sibling = concat(head, tail);
    sibling[64 + 3 * n] ^= 1;
    store(sibling);
  }
  EXPECT_EQ(store_.stats().pages, 13u);
  for (size_t n = 0; n < 12; ++n) {
    Tokens wanted = concat(head, tail);
    wanted[64 + 3 * n + 1] ^= 1;
    EXPECT_EQ(find(wanted), 64 + 3 * n + (n < 11 ? 1 : 0)) << n;
  }
}

TEST_F(LruKvCacheStoreTest, InsertChargesNewPagesOnly) {
  KvCacheEntry session(pool_);
  Tokens history;
  size_t first_touched = 0, first_compared = 0;
  for (size_t turn = 0; turn < 16; ++turn) {
    const Tokens message = random_tokens(100 + turn, 100);
    history = concat(history, message);
    const PrefixTree::Work before = store_.work();
    const size_t copied = pool_.bytes_copied();
    ASSERT_TRUE(feed(session, message).ok());
    ASSERT_TRUE(store_.insert(kAlice, session).ok());
    const size_t touched = store_.work().pages_touched - before.pages_touched;
    const size_t compared = store_.work().tokens_compared - before.tokens_compared;
    if (turn == 2) first_touched = touched, first_compared = compared;
    if (turn > 2) {
      EXPECT_LE(touched, first_touched + 4) << "turn " << turn;
      EXPECT_LE(compared, first_compared + 2 * kPagePositions) << "turn " << turn;
    }
    EXPECT_LE(pool_.bytes_copied() - copied, layout_.page_bytes());
    EXPECT_EQ(store_.stats().pages, KvLayout::pages_for(history.size()))
        << "a longer page replaces its shorter version";
    expect_sound();
  }
  EXPECT_EQ(find(history), history.size());
}

TEST_F(LruKvCacheStoreTest, InsertingTheSameEntryAgainAddsNoPage) {
  KvCacheEntry entry = fed(random_tokens(12, 100));
  ASSERT_TRUE(store_.insert(kAlice, entry).ok());
  const StoreStats before = store_.stats();
  ASSERT_TRUE(store_.insert(kAlice, entry).ok());
  KvCacheEntry shorter = entry.fork().value();
  shorter.slice_to_length(70);
  ASSERT_TRUE(store_.insert(kAlice, shorter).ok());
  EXPECT_EQ(store_.stats().pages, before.pages);
  EXPECT_EQ(store_.stats().inserted_pages, before.inserted_pages);
}

TEST_F(LruKvCacheStoreTest, PrefixesComputedTwiceAreStoredOnce) {
  const Tokens system = random_tokens(13, 150), a = random_tokens(14, 30), b = random_tokens(15, 30);
  KvCacheEntry first = fed(concat(system, a)), second = fed(concat(system, b));
  EXPECT_EQ(pool_.pages_in_use(), 6u);
  ASSERT_TRUE(store_.insert(kAlice, first).ok());
  ASSERT_TRUE(store_.insert(kAlice, second).ok());
  EXPECT_EQ(pool_.pages_in_use(), 4u);
  EXPECT_TRUE(first.pages()[1] == second.pages()[1]);
  EXPECT_EQ(read_rows(first), fresh_rows(layout_, concat(system, a)));
  EXPECT_EQ(read_rows(second), fresh_rows(layout_, concat(system, b)));
}

TEST_F(LruKvCacheStoreTest, InsertingALongerForkReplacesTheShorterFork) {
  KvCacheEntry longer = fed(random_tokens(16, 40));
  KvCacheEntry shorter = longer.fork().value();
  shorter.slice_to_length(30);
  ASSERT_TRUE(store_.insert(kAlice, shorter).ok());
  ASSERT_TRUE(store_.insert(kAlice, longer).ok());
  EXPECT_EQ(store_.stats().pages, 1u);
  EXPECT_EQ(find(longer.tokens()), 40u);
}

TEST_F(LruKvCacheStoreTest, MemoryPressureEvictsTheLeastRecentlyUsedTailFirst) {
  const Tokens old = random_tokens(17, 10 * 64), young = random_tokens(18, 10 * 64);
  store(old);
  store(young);
  EXPECT_EQ(find(old), 640u);  // this lookup makes the older sequence the most recently used one
  {
    const KvCacheEntry live = fed(random_tokens(19, 25 * 64));  // needs 5 more pages than are free
    EXPECT_EQ(pool_.pages_in_use(), 40u);
  }
  EXPECT_EQ(store_.stats().evicted_pages, 5u);
  EXPECT_EQ(find(young), 5 * 64u) << "its tail was evicted, its head not";
  EXPECT_EQ(find(old), 640u);
}

TEST_F(LruKvCacheStoreTest, SharedHeadIsAsRecentAsItsMostRecentBranch) {
  const Tokens head = random_tokens(20, 64), a = random_tokens(21, 64), b = random_tokens(22, 64);
  store(concat(head, a));
  store(random_tokens(23, 64));
  store(concat(head, b));
  EXPECT_EQ(store_.evict(1), 1u);
  EXPECT_EQ(find(concat(head, a)), 64u);
  EXPECT_EQ(store_.evict(1), 1u);
  EXPECT_EQ(find(random_tokens(23, 64)), 0u) << "used before branch b";
  EXPECT_EQ(find(concat(head, b)), 128u);
}

TEST_F(LruKvCacheStoreTest, PagesOfLiveEntriesAreNotEvicted) {
  KvCacheEntry live = fed(random_tokens(24, 100));
  ASSERT_TRUE(store_.insert(kAlice, live).ok());
  store(random_tokens(25, 100));
  EXPECT_EQ(store_.evict(100), 2u);
  EXPECT_EQ(find(live.tokens()), 100u);
  live = KvCacheEntry(pool_);
  EXPECT_EQ(store_.evict(100), 2u);
  EXPECT_EQ(pool_.pages_in_use(), 0u);
}

TEST_F(LruKvCacheStoreTest, ImpossibleReservationEvictsNothing) {
  KvCacheEntry live = fed(random_tokens(26, 20 * 64));
  store(random_tokens(27, 10 * 64));
  EXPECT_EQ(live.reserve(21 * 64).code(), ErrorCode::kOutOfMemory);
  EXPECT_EQ(store_.stats().evicted_pages, 0u);
  EXPECT_TRUE(live.reserve(20 * 64).ok());
  EXPECT_EQ(store_.stats().evicted_pages, 10u);
}

TEST_F(LruKvCacheStoreTest, EvictedPagesAreZeroed) {
  store(random_tokens(28, 64));
  const std::byte* page = static_cast<const std::byte*>(store_.snapshot().nodes.at(0).page);
  ASSERT_EQ(store_.evict(1), 1u);
  allow_memory(page, layout_.page_bytes());  // only this test accesses a freed page
  EXPECT_TRUE(std::all_of(page, page + layout_.page_bytes(), [](std::byte b) { return b == std::byte{0}; }))
      << "zeroed when freed, not when reused";
  const KvPage reused = pool_.allocate().value();
  ASSERT_EQ(reused.data(), page);
  EXPECT_TRUE(std::all_of(page, page + layout_.page_bytes(), [](std::byte b) { return b == std::byte{0}; }));
}

TEST_F(LruKvCacheStoreTest, ManySessionsStayWithinTheBudget) {
  for (uint64_t i = 0; i < 1000; ++i) {
    KvCacheEntry entry = fed(random_tokens(1000 + i, 1 + i % 200));
    ASSERT_TRUE(store_.insert(kAlice, entry).ok());
    ASSERT_LE(pool_.bytes_in_use(), pool_.budget_bytes());
  }
  EXPECT_LE(pool_.peak_bytes(), pool_.budget_bytes());
  EXPECT_GT(store_.stats().evicted_pages, 1000u);
}

// --- the store's own budget

TEST(LruKvCacheStoreBudget, ZeroBudgetStoresNothing) {
  const KvLayout layout = tiny_layout(KvDType::kF32);
  KvPagePool pool(layout, 4 * layout.page_bytes());
  LruKvCacheStore store(pool, 0);
  KvCacheEntry entry(pool);
  ASSERT_TRUE(feed(entry, random_tokens(30, 100)).ok());
  EXPECT_EQ(store.insert(kAlice, entry).code(), ErrorCode::kOutOfMemory);
  EXPECT_EQ(store.charge_bytes(), 0u);
  EXPECT_THAT(validate_store(store.snapshot()), IsEmpty());
  EXPECT_EQ(store.find_longest_prefix(kAlice, entry.tokens()).length(), 0u);
}

TEST(LruKvCacheStoreBudget, EntriesAreInsertedWholeOrNotAtAll) {
  const KvLayout layout = tiny_layout(KvDType::kF32);
  KvPagePool pool(layout, 100 * layout.page_bytes());
  const size_t page_charge = LruKvCacheStore(pool).page_charge_bytes();
  EXPECT_GT(page_charge, layout.page_bytes());
  LruKvCacheStore store(pool, 3 * page_charge);
  {
    KvCacheEntry old(pool);
    ASSERT_TRUE(feed(old, random_tokens(31, 100)).ok());
    ASSERT_TRUE(store.insert(kAlice, old).ok());
  }
  KvCacheEntry large(pool), fitting(pool);
  ASSERT_TRUE(feed(large, random_tokens(32, 193)).ok());
  EXPECT_EQ(store.insert(kAlice, large).code(), ErrorCode::kOutOfMemory);
  EXPECT_EQ(store.stats().evicted_pages, 0u) << "an insertion that cannot fit evicts nothing";
  ASSERT_TRUE(feed(fitting, random_tokens(33, 192)).ok());
  EXPECT_TRUE(store.insert(kAlice, fitting).ok());
  EXPECT_EQ(store.charge_bytes(), store.budget_bytes());
  EXPECT_EQ(store.stats().evicted_pages, 2u);
  EXPECT_THAT(validate_store(store.snapshot()), IsEmpty());
}

TEST(LruKvCacheStoreBudget, InsertDoesNotEvictItsOwnPrefix) {
  const KvLayout layout = tiny_layout(KvDType::kF32);
  KvPagePool pool(layout, 100 * layout.page_bytes());
  LruKvCacheStore store(pool, 2 * LruKvCacheStore(pool).page_charge_bytes());
  const Tokens tokens = random_tokens(34, 192);
  {
    KvCacheEntry head(pool);
    ASSERT_TRUE(feed(head, TokenSpan(tokens).first(128)).ok());
    ASSERT_TRUE(store.insert(kAlice, head).ok());
  }
  KvCacheEntry whole(pool);  // computed separately, so it holds no page of the store
  ASSERT_TRUE(feed(whole, tokens).ok());
  EXPECT_EQ(store.insert(kAlice, whole).code(), ErrorCode::kOutOfMemory);
  EXPECT_EQ(store.find_longest_prefix(kAlice, tokens).length(), 128u);
  EXPECT_THAT(validate_store(store.snapshot()), IsEmpty());
}

TEST_F(LruKvCacheStoreTest, NamespaceStatsAddUpToTotalStats) {
  const Tokens tokens = random_tokens(53, 100);
  store(tokens, kAlice);
  store(random_tokens(54, 64), kBob);
  find(tokens, kAlice);
  find(TokenSpan(tokens).first(70), kAlice);
  find(tokens, kBob);
  find(tokens, "unknown");
  EXPECT_EQ(store_.stats().lookups, 4u);
  EXPECT_EQ(store_.stats().hits, 2u);
  EXPECT_EQ(store_.stats().misses(), 2u);
  EXPECT_EQ(store_.stats().reused_tokens, 170u);
  EXPECT_EQ(store_.stats().inserted_pages, 3u);
  EXPECT_EQ(store_.stats(kAlice).reused_tokens, 170u);
  EXPECT_EQ(store_.stats(kAlice).pages, 2u);
  EXPECT_EQ(store_.stats(kBob).misses(), 1u);
  EXPECT_EQ(store_.stats("unknown").lookups, 0u);
  EXPECT_EQ(store_.charge_bytes(), 3 * store_.page_charge_bytes());
  ASSERT_TRUE(store_.remember_logits(kAlice, tokens, std::vector<float>(100)).ok());
  const size_t logits = store_.charge_bytes() - 3 * store_.page_charge_bytes();
  EXPECT_GE(logits, 400u);
  EXPECT_EQ(store_.stats(kAlice).bytes, 2 * store_.page_charge_bytes() + logits);
  EXPECT_EQ(store_.stats(kBob).bytes, store_.page_charge_bytes());
  EXPECT_EQ(store_.stats().bytes, store_.charge_bytes());
  store_.clear(kBob);
  store(random_tokens(75, 64), kAlice);
  store_.evict(1);
  EXPECT_EQ(store_.stats(kAlice).peak_bytes, 3 * store_.page_charge_bytes() + logits);
  EXPECT_LT(store_.stats(kAlice).bytes, store_.stats(kAlice).peak_bytes);
  store_.evict(3);
  EXPECT_EQ(store_.stats().evicted_pages, 3u);
  EXPECT_EQ(store_.stats().pages, 0u);
  EXPECT_EQ(store_.stats().peak_pages, 3u);
}

TEST_F(LruKvCacheStoreTest, LookupCostDoesNotDependOnTheSizeOfTheStore) {
  const Tokens tokens = random_tokens(55, 640);
  store(tokens);
  const auto cost = [&] {
    const PrefixTree::Work before = store_.work();
    EXPECT_EQ(find(tokens), 640u);
    return store_.work().tokens_compared - before.tokens_compared;
  };
  const size_t alone = cost();
  EXPECT_LE(alone, tokens.size() + 10);
  for (uint64_t i = 0; i < 28; ++i) store(random_tokens(200 + i, 64));
  EXPECT_LE(cost(), alone + 6) << "one more binary search step per doubling";
}

}  // namespace
}  // namespace ibid
