// One test per caller error, and per case of memory that runs out in the middle. A caller error fails a CHECK. An error
// from outside is typed and changes nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/store/lru_kv_cache_store.h"
#include "tests/cache/tiny_kv.h"
#include "tests/support/failing_new.h"
#include "tests/support/store_invariants.h"

namespace ibid {
namespace {

using testing::IsEmpty;

class KvMisuseTest : public testing::Test {
 protected:
  const KvLayout layout_ = tiny_layout(KvDType::kInt8);
  KvPagePool pool_{layout_, 40 * layout_.page_bytes()};
  LruKvCacheStore store_{pool_};
  const Tokens tokens_ = random_tokens(1, 100);

  void TearDown() override { EXPECT_THAT(validate_store(store_.snapshot()), IsEmpty()); }
};
using KvMisuseDeathTest = KvMisuseTest;

TEST_F(KvMisuseDeathTest, AppendBeyondCapacityFailsACheck) {
  KvCacheEntry entry(pool_);
  ASSERT_TRUE(feed(entry, tokens_).ok());
  ASSERT_EQ(entry.capacity(), 128u);
  const TinyRows rows = tiny_rows(layout_, tokens_, random_tokens(2, 29), 0);
  Barrier barrier(1);
  const Worker worker(0, 1, barrier);
  EXPECT_DEATH(entry.append(worker, tiny_kernels(), 0, rows.k.data(), rows.v.data(), layout_.layer(0).kv_dim(), 29),
               "append without reserve");
}

TEST_F(KvMisuseDeathTest, SlicePastTheEndFailsACheck) {
  KvCacheEntry entry(pool_);
  ASSERT_TRUE(feed(entry, tokens_).ok());
  EXPECT_DEATH(entry.slice_to_length(101), "101 vs 100");
  EXPECT_DEATH(entry.slice_to_length(static_cast<size_t>(-1)), "vs 100");
}

TEST_F(KvMisuseDeathTest, CommitTwiceFailsACheck) {
  KvCacheEntry entry(pool_);
  EXPECT_DEATH(entry.commit(tokens_), "commit without reserve");
  ASSERT_TRUE(feed(entry, tokens_).ok());
  EXPECT_DEATH(entry.commit(tokens_), "rows staged in layer 0");
}

// Eviction removes pages from the store, never from an entry.
TEST_F(KvMisuseTest, EntryStaysUsableAfterItsPagesLeaveTheStore) {
  KvCacheEntry entry(pool_);
  ASSERT_TRUE(feed(entry, tokens_).ok());
  ASSERT_TRUE(store_.insert(kAlice, entry).ok());
  PrefixHit hit = store_.find_longest_prefix(kAlice, tokens_);
  EXPECT_EQ(store_.evict(100), 0u) << "held";
  store_.clear(kAlice);
  entry = KvCacheEntry(pool_);
  EXPECT_EQ(read_rows(hit.entry), fresh_rows(layout_, tokens_));
  ASSERT_TRUE(feed(hit.entry, random_tokens(3, 50)).ok());
  EXPECT_EQ(read_rows(hit.entry), fresh_rows(layout_, concat(tokens_, random_tokens(3, 50))));
}

TEST_F(KvMisuseTest, EntryOfAnotherPoolIsRefused) {
  const KvLayout other = KvLayout::make(3, 1, 16, KvDType::kF16);
  KvPagePool other_pool(other, 10 * other.page_bytes()), same_shape(layout_, 10 * layout_.page_bytes());
  for (KvPagePool* pool : {&other_pool, &same_shape}) {
    KvCacheEntry entry(*pool);
    ASSERT_TRUE(feed(entry, tokens_).ok());
    EXPECT_EQ(store_.insert(kAlice, entry).code(), ErrorCode::kMismatch);
    EXPECT_EQ(read_rows(entry), fresh_rows(pool->layout(), tokens_));
  }
  EXPECT_EQ(store_.stats().pages, 0u);
}

TEST_F(KvMisuseTest, StoreWithoutBudgetRefusesEveryEntry) {
  LruKvCacheStore store(pool_, 0);
  KvCacheEntry entry(pool_);
  ASSERT_TRUE(feed(entry, tokens_).ok());
  EXPECT_EQ(store.insert(kAlice, entry).code(), ErrorCode::kOutOfMemory);
  EXPECT_EQ(store.find_longest_prefix(kAlice, tokens_).length(), 0u);
  EXPECT_EQ(store.remember_logits(kAlice, tokens_, std::vector<float>(3)).code(), ErrorCode::kNotFound);
  EXPECT_EQ(store.charge_bytes(), 0u);
  EXPECT_THAT(validate_store(store.snapshot()), IsEmpty());
  KvPagePool nothing(layout_, 0);
  KvCacheEntry homeless(nothing);
  EXPECT_EQ(feed(homeless, tokens_).code(), ErrorCode::kOutOfMemory);
  EXPECT_EQ(homeless.length(), 0u);
}

TEST_F(KvMisuseTest, EntryLargerThanTheBudgetIsRefusedAsAWhole) {
  LruKvCacheStore store(pool_, 2 * store_.page_charge_bytes() - 1);
  KvCacheEntry entry(pool_);
  ASSERT_TRUE(feed(entry, tokens_).ok());
  EXPECT_EQ(store.insert(kAlice, entry).code(), ErrorCode::kOutOfMemory) << "whole or not at all";
  EXPECT_EQ(store.charge_bytes(), 0u);
  EXPECT_TRUE(store.insert(kAlice, entry, {.extent = Extent::kFullPages}).ok()) << "one page fits";
  EXPECT_EQ(store.find_longest_prefix(kAlice, tokens_).length(), 64u);
  EXPECT_THAT(validate_store(store.snapshot()), IsEmpty());
}

TEST_F(KvMisuseTest, ThousandSessionsStayWithinThePoolBudget) {
  LruKvCacheStore store(pool_, size_t{1} << 30);  // a large budget, so that only the pool limits the store
  std::vector<KvCacheEntry> live;
  size_t refused = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    KvCacheEntry entry(pool_);
    const Tokens prompt = random_tokens(100 + i, 1 + i % 150);
    const Status fed = feed(entry, prompt);
    if (!fed.ok()) {
      ++refused;
      ASSERT_EQ(fed.code(), ErrorCode::kOutOfMemory);
      ASSERT_EQ(entry.length(), 0u);
      live.erase(live.begin(), live.begin() + 5);  // end some sessions, so that others can start
      continue;
    }
    ASSERT_TRUE(store.insert(kAlice, entry).ok());
    ASSERT_EQ(store.find_longest_prefix(kAlice, prompt).length(), prompt.size()) << "held, so not evicted";
    live.push_back(std::move(entry));
    ASSERT_THAT(validate_store(store.snapshot()), IsEmpty());
  }
  EXPECT_GT(refused, 10u);
  EXPECT_GT(store.stats().evicted_pages, 100u);
  EXPECT_LE(pool_.peak_bytes(), pool_.budget_bytes());
}

// append() and commit() do not allocate. reserve(), which comes before them, changes nothing if it fails.
TEST_F(KvMisuseTest, FailedAllocationChangesNothing) {
  KvCacheEntry entry(pool_);
  ASSERT_TRUE(feed(entry, tokens_).ok());
  const std::vector<float> rows = read_rows(entry);
  size_t n = 0;
  for (bool failed = true; failed; ++n) {
    FailingNew failing(n);
    const ErrorCode code = entry.reserve(300).code();
    failing.stop();
    failed = failing.has_failed();
    ASSERT_EQ(code, failed ? ErrorCode::kOutOfMemory : ErrorCode::kOk) << n;
    ASSERT_EQ(entry.length(), 100u);
    ASSERT_EQ(read_rows(entry), rows);
  }
  EXPECT_GT(n, 3u);
  ASSERT_TRUE(feed(entry, random_tokens(4, 300)).ok());
  EXPECT_EQ(read_rows(entry), fresh_rows(layout_, concat(tokens_, random_tokens(4, 300))));
}

}  // namespace
}  // namespace ibid
