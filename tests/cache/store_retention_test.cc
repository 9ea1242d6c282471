// Eviction order: unused pages before reused ones, declared prefixes last; and which pages an insertion stores.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/store/lru_kv_cache_store.h"
#include "tests/cache/tiny_kv.h"
#include "tests/support/store_invariants.h"

namespace ibid {
namespace {

using testing::IsEmpty;

struct EvictingStore {
  explicit EvictingStore(Eviction eviction = Eviction::kReuse) : store(pool, size_t{1} << 30, eviction) {}

  void insert(TokenSpan tokens, const InsertOptions& options = {}) {
    KvCacheEntry entry = store.find_longest_prefix(kAlice, tokens).entry;
    ASSERT_TRUE(feed(entry, tokens.subspan(entry.length())).ok());
    ASSERT_TRUE(store.insert(kAlice, entry, options).ok());
    ASSERT_THAT(validate_store(store.snapshot()), IsEmpty());
  }
  size_t find(TokenSpan ids) { return store.find_longest_prefix(kAlice, ids).length(); }
  // Returns how many of `ids` are stored, without marking their pages as used.
  size_t stored(TokenSpan ids) {
    size_t n = 0;
    for (const StoreSnapshot::Node& node : store.snapshot().nodes) {
      for (size_t begin = 0; begin < ids.size(); begin += kPagePositions) {
        const TokenSpan page = ids.subspan(begin, std::min(kPagePositions, ids.size() - begin));
        if (std::equal(page.begin(), page.end(), node.ids.begin(), node.ids.end())) n += page.size();
      }
    }
    return n;
  }

  const KvLayout layout = tiny_layout(KvDType::kInt8);
  KvPagePool pool{layout, 40 * layout.page_bytes()};
  LruKvCacheStore store;
};

TEST(StoreRetention, ReusedPagesAreEvictedLaterThanUnusedPages) {
  for (const Eviction eviction : {Eviction::kReuse, Eviction::kLru}) {
    EvictingStore world(eviction);
    const Tokens used = random_tokens(1, 5 * 64);
    world.insert(used);
    EXPECT_EQ(world.find(used), used.size());
    for (uint64_t i = 0; i < 6; ++i) world.insert(random_tokens(10 + i, 10 * 64));
    EXPECT_EQ(world.stored(used), eviction == Eviction::kReuse ? used.size() : 0u);
    for (uint64_t i = 0; i < 20; ++i) world.insert(random_tokens(30 + i, 10 * 64));
    EXPECT_EQ(world.stored(used), 0u) << "but nothing stays forever";
  }
}

TEST(StoreRetention, ContinuedConversationsCountAsReused) {
  EvictingStore world;
  KvCacheEntry session(world.pool);
  ASSERT_TRUE(feed(session, random_tokens(2, 128)).ok());
  ASSERT_TRUE(world.store.insert(kAlice, session).ok());
  ASSERT_TRUE(feed(session, random_tokens(3, 64)).ok());
  ASSERT_TRUE(world.store.insert(kAlice, session).ok());
  const Tokens said(session.tokens().begin(), session.tokens().end());
  session = KvCacheEntry(world.pool);
  for (uint64_t i = 0; i < 5; ++i) world.insert(random_tokens(10 + i, 10 * 64));
  EXPECT_EQ(world.stored(said), 128u) << "the last turn was not reused";
}

TEST(StoreRetention, DeclaredPrefixesAreEvictedLast) {
  EvictingStore world;
  const Tokens system = random_tokens(4, 150), used = random_tokens(5, 128);
  world.insert(system, {.retention = Retention::kPrefix});
  world.insert(used);
  EXPECT_EQ(world.find(used), used.size());
  for (uint64_t i = 0; i < 20; ++i) world.insert(random_tokens(10 + i, 10 * 64));
  EXPECT_EQ(world.stored(used), 0u);
  EXPECT_EQ(world.stored(system), system.size());
  for (uint64_t i = 0; i < 60; ++i) world.insert(random_tokens(50 + i, 10 * 64));
  EXPECT_EQ(world.stored(system), 0u) << "an unused one is evicted in the end";
}

TEST(StoreRetention, DeclaringAStoredPrefixLaterRaisesItsRetention) {
  EvictingStore world;
  const Tokens system = random_tokens(6, 150);
  world.insert(system);
  world.insert(concat(system, random_tokens(7, 300)));
  world.insert(system, {.retention = Retention::kPrefix});
  for (uint64_t i = 0; i < 12; ++i) world.insert(random_tokens(10 + i, 10 * 64));
  EXPECT_EQ(world.stored(TokenSpan(system).first(128)), 128u);
}

TEST(StoreRetention, EvictionFindsUnusedPagesAmongPagesInUse) {
  EvictingStore world;
  std::vector<KvCacheEntry> held;
  for (uint64_t i = 0; i < 10; ++i) {
    held.emplace_back(world.pool);
    ASSERT_TRUE(feed(held.back(), random_tokens(60 + i, 64)).ok());
    ASSERT_TRUE(world.store.insert(kAlice, held.back()).ok());
  }
  const Tokens idle = random_tokens(8, 640);
  world.insert(idle, {.retention = Retention::kPrefix});
  EXPECT_EQ(world.store.evict(3), 3u);
  EXPECT_EQ(world.store.evict(100), 7u);
  EXPECT_THAT(validate_store(world.store.snapshot()), IsEmpty());
}

TEST(StoreExtent, InsertLimitedToFullPagesLeavesOutThePartialPage) {
  EvictingStore world;
  KvCacheEntry session(world.pool);
  const Tokens first = random_tokens(9, 100), second = random_tokens(10, 60);
  ASSERT_TRUE(feed(session, first).ok());
  ASSERT_TRUE(world.store.insert(kAlice, session, {.extent = Extent::kFullPages}).ok());
  EXPECT_EQ(world.store.stats().pages, 1u);
  EXPECT_EQ(world.find(first), 64u);
  ASSERT_TRUE(feed(session, second).ok());
  EXPECT_EQ(session.pages_copied(), 0u) << "the entry alone held the page";
  ASSERT_TRUE(world.store.insert(kAlice, session, {.extent = Extent::kFullPages}).ok());
  EXPECT_EQ(world.find(concat(first, second)), 128u);
  KvCacheEntry all(world.pool);
  ASSERT_TRUE(feed(all, random_tokens(12, 100)).ok());
  ASSERT_TRUE(world.store.insert(kAlice, all).ok());
  ASSERT_TRUE(feed(all, second).ok());
  EXPECT_EQ(all.pages_copied(), 1u) << "the store held it too";
  EXPECT_THAT(validate_store(world.store.snapshot()), IsEmpty());
  KvCacheEntry brief(world.pool);
  ASSERT_TRUE(feed(brief, random_tokens(11, 63)).ok());
  ASSERT_TRUE(world.store.insert("brief", brief, {.extent = Extent::kFullPages}).ok());
  EXPECT_EQ(world.store.stats("brief").pages, 0u);
}

}  // namespace
}  // namespace ibid
