#include "server/events/kv_change_queue.h"

#include <gtest/gtest.h>

#include "cache/store/lru_kv_cache_store.h"
#include "tests/cache/tiny_kv.h"

namespace ibid::serve {
namespace {

class KvChangeQueueTest : public testing::Test {
 protected:
  void insert(uint64_t seed, size_t n_tokens) {
    KvCacheEntry entry(pool_);
    ASSERT_TRUE(feed(entry, random_tokens(seed, n_tokens)).ok());
    ASSERT_TRUE(store_->insert(kAlice, entry).ok());
  }

  const KvLayout layout_ = tiny_layout(KvDType::kInt8);
  KvPagePool pool_{layout_, 40 * layout_.page_bytes()};
  std::unique_ptr<LruKvCacheStore> store_ = std::make_unique<LruKvCacheStore>(pool_);
  size_t n_wakes_ = 0;
  std::shared_ptr<KvChangeQueue> queue_ = std::make_shared<KvChangeQueue>(*store_, [this] { ++n_wakes_; });
};

TEST_F(KvChangeQueueTest, ChangesArriveInOrderAfterAList) {
  insert(1, 130);
  queue_->list();
  KvChangeQueue::Taken taken = queue_->take();
  EXPECT_TRUE(taken.is_list);
  ASSERT_EQ(taken.changes.size(), 2u);
  EXPECT_EQ(taken.changes[0].before, 0u);
  EXPECT_EQ(taken.changes[1].before, taken.changes[0].serial);
  EXPECT_EQ(taken.changes[1].tokens.size(), 64u);
  EXPECT_EQ(taken.changes[1].name_space, kAlice);
  n_wakes_ = 0;
  insert(2, 64);
  store_->clear(kAlice);
  taken = queue_->take();
  EXPECT_FALSE(taken.is_list);
  ASSERT_EQ(taken.changes.size(), 4u);
  EXPECT_FALSE(taken.changes[0].tokens.empty());
  for (size_t i = 1; i < 4; ++i) EXPECT_TRUE(taken.changes[i].tokens.empty()) << "removed";
  EXPECT_EQ(n_wakes_, 4u);
  EXPECT_TRUE(queue_->take().changes.empty());
}

TEST_F(KvChangeQueueTest, FullQueueIsOutdatedUntilAList) {
  queue_->list();
  const Tokens tokens = random_tokens(1, 64);
  for (size_t i = 0; i <= KvChangeQueue::kMaxChanges; ++i) queue_->page_removed(i);
  for (int i = 0; i < 2; ++i) {
    const KvChangeQueue::Taken taken = queue_->take();
    EXPECT_TRUE(taken.is_outdated);
    EXPECT_TRUE(taken.changes.empty());
    queue_->page_stored({.serial = 1, .tokens = tokens});
  }
  insert(1, 70);
  queue_->list();
  const KvChangeQueue::Taken taken = queue_->take();
  EXPECT_FALSE(taken.is_outdated);
  EXPECT_TRUE(taken.is_list);
  EXPECT_EQ(taken.changes.size(), 1u);
}

TEST_F(KvChangeQueueTest, PagesThatBecomeSharedMakeItOutdated) {
  queue_->list();
  insert(1, 64);
  KvCacheEntry entry = store_->find_longest_prefix(kAlice, random_tokens(1, 64)).entry;
  ASSERT_TRUE(store_->insert(kAlice, entry, Sharing::kShared).ok());
  EXPECT_TRUE(queue_->take().is_outdated);
  queue_->list();
  const KvChangeQueue::Taken taken = queue_->take();
  ASSERT_EQ(taken.changes.size(), 1u);
  EXPECT_TRUE(taken.changes[0].is_shared);
}

TEST_F(KvChangeQueueTest, EndOfTheStoreIsTheLastReport) {
  queue_->list();
  insert(1, 64);
  store_.reset();
  EXPECT_TRUE(queue_->take().has_ended);
  queue_->list();
  const KvChangeQueue::Taken taken = queue_->take();
  EXPECT_TRUE(taken.has_ended);
  EXPECT_TRUE(taken.changes.empty());
}

}  // namespace
}  // namespace ibid::serve
