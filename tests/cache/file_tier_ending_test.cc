// flush() writes the queue on the calling thread, even on a machine that is never idle, and reports unwritten pages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <semaphore>
#include <set>
#include <thread>

#include "cache/tier/file_tier.h"
#include "tests/cache/tier_fixture.h"
#include "tests/support/faulty_file_ops.h"
#include "tests/support/idle_fakes.h"
#include "tests/support/memory_file_ops.h"

namespace ibid {
namespace {

class FileTierEnding : public TierTest {
 protected:
  FileTierEnding() {
    files_ = &faulty_;
    durable_ = true;
  }
  std::unique_ptr<FileTier> open(KvPagePool& pool, std::unique_ptr<IdleTime> idle) {
    FileTierOptions wide = options();
    wide.waiting_budget_bytes = pool.budget_bytes();
    Result<std::unique_ptr<FileTier>> tier = FileTier::open(wide, pool, faulty_, manual_clock_, std::move(idle));
    EXPECT_TRUE(tier.ok()) << tier.status().to_string();
    return *std::move(tier);
  }

  MemoryFileOps memory_;
  FaultyFileOps faulty_{memory_};
};

TEST_F(FileTierEnding, FlushWritesOnTheCallingThread) {
  std::set<std::thread::id> writers;
  faulty_.before_call = [&](std::string_view what) {
    if (what == "write" || what == "sync_directory") writers.insert(std::this_thread::get_id());
  };
  const Tokens ids = random_tokens(1, 640);
  {
    const auto tier = open(pool_, std::make_unique<NeverIdle>());
    tier->write_behind("", fed(ids));
    EXPECT_EQ(tier->stats().waiting, 10u);
    EXPECT_EQ(tier->stats().waiting_bytes, 10 * layout_.page_bytes());
    ASSERT_TRUE(tier->flush().ok());
    EXPECT_EQ(tier->stats().waiting, 0u);
    EXPECT_EQ(tier->stats().pages_written, 10u);
    EXPECT_EQ(found(*tier, "", ids), ids.size());
  }
  EXPECT_EQ(writers, std::set{std::this_thread::get_id()});
}

// Each page takes a fixed time. After the limit no page is started: written pages are found, and the others are
// counted, stay queued, and are written by a later flush().
TEST_F(FileTierEnding, FlushStopsAtItsTimeLimitAndReportsUnwrittenPages) {
  constexpr int64_t kPageNs = 100'000'000;
  faulty_.before_call = [&](std::string_view what) {
    if (what == "create_new") manual_clock_.advance(kPageNs);
  };
  const Tokens ids = random_tokens(2, 640);
  const auto tier = open(pool_, std::make_unique<NeverIdle>());
  tier->write_behind("", fed(ids));
  const int64_t begin_ns = manual_clock_.steady_ns();
  const Status status = tier->flush(3 * kPageNs - 1);
  EXPECT_EQ(manual_clock_.steady_ns() - begin_ns, 3 * kPageNs);
  EXPECT_EQ(status.code(), ErrorCode::kLimitExceeded);
  EXPECT_THAT(status.message(), testing::HasSubstr("7 pages"));
  EXPECT_EQ(tier->stats().waiting, 7u);
  EXPECT_EQ(tier->stats().waiting_bytes, 7 * layout_.page_bytes());
  EXPECT_EQ(found(*tier, "", ids), 3 * kPagePositions);
  {  // written pages survive a power loss
    std::mt19937_64 rng(3);
    const std::unique_ptr<MemoryFileOps> left = memory_.after_power_loss(rng);
    const auto next = *FileTier::open(options(), pool_, *left, manual_clock_);
    EXPECT_EQ(found(*next, "", ids), 3 * kPagePositions);
  }
  EXPECT_EQ(tier->flush(0).code(), ErrorCode::kLimitExceeded) << "no page is started without time";
  EXPECT_EQ(tier->stats().waiting, 7u);
  ASSERT_TRUE(tier->flush().ok());
  EXPECT_EQ(found(*tier, "", ids), ids.size());
}

// On a machine that is never idle, pages stay queued, but not held: the whole pool can be allocated at any time.
TEST_F(FileTierEnding, PoolCanReclaimAllQueuedPages) {
  KvPagePool small(layout_, 8 * layout_.page_bytes());
  const auto tier = open(small, std::make_unique<NeverIdle>());
  for (uint64_t round = 0; round < 20; ++round) {
    {
      KvCacheEntry entry(small);
      ASSERT_TRUE(feed(entry, random_tokens(100 + round, 512)).ok());
      tier->write_behind("", entry);
    }
    EXPECT_EQ(tier->stats().waiting, 8u);
    ASSERT_TRUE(small.allocate(8).ok());
    EXPECT_EQ(tier->stats().waiting, 0u);
    EXPECT_EQ(tier->stats().dropped, 8 * (round + 1));
  }
}

// The background thread blocks while it writes a page. That page was copied before, so the whole pool can be allocated.
TEST_F(FileTierEnding, BlockedWriterThreadHoldsNoPageOfThePool) {
  KvPagePool small(layout_, 8 * layout_.page_bytes());
  std::binary_semaphore reached{0}, go_on{0};
  std::atomic<bool> stuck{true};
  faulty_.before_call = [&](std::string_view what) {
    if (what == "write" && stuck.exchange(false)) {
      reached.release();
      go_on.acquire();
    }
  };
  const auto tier = open(small, std::make_unique<AlwaysIdle>());
  {
    KvCacheEntry entry(small);
    ASSERT_TRUE(feed(entry, random_tokens(4, 512)).ok());
    tier->write_behind("", entry);
    reached.acquire();
  }
  EXPECT_TRUE(small.allocate(8).ok());
  EXPECT_EQ(tier->stats().waiting, 0u);
  go_on.release();
  EXPECT_EQ(tier->flush().code(), ErrorCode::kOutOfMemory) << "seven pages were dropped";
  EXPECT_EQ(tier->stats().pages_written, 1u);
  EXPECT_EQ(tier->stats().dropped, 7u);
}

TEST_F(FileTierEnding, ConcurrentFlushesSucceed) {
  const auto tier = open(pool_, std::make_unique<NeverIdle>());
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 10; ++i) {
        const Tokens ids = random_tokens(10 * t + i, 150);
        tier->write_behind("", fed(ids));
        EXPECT_TRUE(tier->flush().ok());
        EXPECT_EQ(found(*tier, "", ids), ids.size());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(tier->stats().pages, 120u);
}

}  // namespace
}  // namespace ibid
