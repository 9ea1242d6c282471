#include "cache/tier/write_behind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "tests/cache/tiny_kv.h"
#include "tests/support/idle_fakes.h"
#include "tests/support/manual_clock.h"

namespace ibid {
namespace {

using testing::ElementsAre;

// Stores what it receives, and fails on request.
class FakeSink : public PageSink {
 public:
  std::unique_lock<std::mutex> take_pen() override { return std::unique_lock(pen); }
  bool has(const RecordPlace& place, KvPageParts) const override {
    const std::lock_guard lock(mutex);
    return stored.contains({place.before, Tokens(place.page_ids.begin(), place.page_ids.end())});
  }
  Status write(const WaitingPage& page, std::span<const std::byte> rows, KvPageParts) override {
    EXPECT_FALSE(static_cast<bool>(page.page)) << "a page is held while it is written";
    EXPECT_EQ(page.ids().size(), page.n_tokens);
    EXPECT_FALSE(rows.empty());
    if (!next_error.ok()) return std::exchange(next_error, Status());
    const std::lock_guard lock(mutex);
    stored.insert({page.before.name, Tokens(page.page_ids().begin(), page.page_ids().end())});
    ends.push_back(page.n_tokens);
    writers.insert(std::this_thread::get_id());
    return {};
  }
  void touch(const PageName&, TokenSpan) override {}
  bool has_state(const RecordPlace& place, size_t n_front) const override {
    const std::lock_guard lock(mutex);
    return states.contains({place.before, Tokens(place.page_ids.begin(), place.page_ids.end()), n_front});
  }
  Status write(const WaitingState& state, std::span<const std::byte> bytes) override {
    EXPECT_FALSE(static_cast<bool>(state.snapshot.state)) << "a state is held while it is written";
    EXPECT_FALSE(bytes.empty());
    if (!next_error.ok()) return std::exchange(next_error, Status());
    const std::lock_guard lock(mutex);
    states.insert({state.before.name, Tokens(state.page_ids().begin(), state.page_ids().end()), state.n_front()});
    return {};
  }
  Status settle() override {
    ++n_settled;
    return {};
  }

  std::mutex pen;
  mutable std::mutex mutex;
  std::set<std::pair<PageName, Tokens>> stored;
  std::set<std::tuple<PageName, Tokens, size_t>> states;
  std::vector<size_t> ends;  // ends of the written pages, in order
  std::set<std::thread::id> writers;
  Status next_error;
  std::atomic<int> n_settled{0};
};

class WriteBehindTest : public testing::Test {
 protected:
  std::unique_ptr<WriteBehind> make(size_t waiting_pages = 100, std::unique_ptr<IdleTime> idle = nullptr,
                                    uint64_t eager_bytes_per_s = 0) {
    if (idle == nullptr) idle = std::make_unique<NeverIdle>();
    return std::make_unique<WriteBehind>(
        WriteBehindOptions{waiting_pages * layout_.page_bytes(), eager_bytes_per_s, first_half}, pool_, sink_, clock_,
        std::move(idle));
  }
  KvCacheEntry fed(TokenSpan ids) {
    KvCacheEntry entry(pool_);
    EXPECT_TRUE(feed(entry, ids).ok());
    return entry;
  }
  KvPageIdentity identity(std::string_view name_space = "") const {
    return {FingerprintBuilder().add("test", "model").finish(), digest_of_namespace(name_space)};
  }
  static KvTierStats stats(const WriteBehind& writing) {
    KvTierStats stats;
    writing.add_to(stats);
    return stats;
  }

  const KvLayout layout_ = tiny_layout(KvDType::kF32);
  KvPagePool pool_{layout_, 64 * layout_.page_bytes()};
  ManualClock clock_;
  FakeSink sink_;
};

TEST_F(WriteBehindTest, FlushWritesPagesInOrderOnTheCallingThread) {
  const auto writing = make();
  writing->hand_over(identity(), fed(random_tokens(1, 200)));
  EXPECT_EQ(stats(*writing).waiting, 4u);
  EXPECT_EQ(stats(*writing).waiting_bytes, 4 * layout_.page_bytes());
  ASSERT_TRUE(writing->flush(KvTier::kNoLimit).ok());
  EXPECT_THAT(sink_.ends, ElementsAre(64, 128, 192, 200));
  EXPECT_THAT(sink_.writers, ElementsAre(std::this_thread::get_id()));
  EXPECT_EQ(sink_.n_settled, 1);
  EXPECT_EQ(pool_.pages_in_use(), 0u);
}

TEST_F(WriteBehindTest, BackgroundThreadWritesWhenTheMachineIsIdle) {
  const auto writing = make(100, std::make_unique<AlwaysIdle>());
  writing->hand_over(identity(), fed(random_tokens(1, 200)));
  while (sink_.n_settled == 0) std::this_thread::yield();
  const std::lock_guard lock(sink_.mutex);
  EXPECT_THAT(sink_.ends, ElementsAre(64, 128, 192, 200));
  EXPECT_FALSE(sink_.writers.contains(std::this_thread::get_id()));
}

// A machine that is never idle, on which waits end at their limits at once. Adds the limits to the clock.
class BusyTime : public IdleTime {
 public:
  explicit BusyTime(ManualClock& clock) : clock_(clock) {}
  bool wait_for(std::chrono::nanoseconds limit) override {
    EXPECT_LT(limit, std::chrono::seconds(10));
    std::this_thread::yield();
    clock_.advance(std::max<int64_t>(limit.count(), 0));
    return false;
  }
  void interrupt() noexcept override {}

 private:
  ManualClock& clock_;
};

TEST_F(WriteBehindTest, BusyMachineWritesWholePagesAtTheRate) {
  const size_t n_pages = 30;
  const auto writing = make(100, std::make_unique<BusyTime>(clock_), 10 * layout_.page_bytes());
  writing->hand_over(identity(), fed(random_tokens(9, 64 * n_pages + 7)));
  while (stats(*writing).waiting > 1 || sink_.n_settled == 0) std::this_thread::yield();
  const int64_t elapsed_ns = clock_.steady_ns();
  {
    const std::lock_guard lock(sink_.mutex);
    EXPECT_EQ(sink_.ends.size(), n_pages);
    EXPECT_TRUE(std::ranges::is_sorted(sink_.ends));
  }
  EXPECT_EQ(stats(*writing).waiting, 1u) << "a partial page waits for an idle processor";
  EXPECT_GE(elapsed_ns, 2'800'000'000) << "ten pages a second";
  ASSERT_TRUE(writing->flush(KvTier::kNoLimit).ok());
  const std::lock_guard lock(sink_.mutex);
  EXPECT_EQ(sink_.ends.size(), n_pages + 1);
}

TEST_F(WriteBehindTest, BusyMachineWritesNothingWithoutARate) {
  const auto writing = make();
  writing->hand_over(identity(), fed(random_tokens(10, 640)));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(stats(*writing).waiting, 10u);
}

TEST_F(WriteBehindTest, StoredOrQueuedPagesAreNotQueuedAgain) {
  const Tokens ids = random_tokens(2, 150);
  const auto writing = make();
  writing->hand_over(identity(), fed(TokenSpan(ids).first(140)));
  writing->hand_over(identity(), fed(ids));  // the last page replaces its shorter version, which is still queued
  EXPECT_EQ(stats(*writing).waiting, 3u);
  ASSERT_TRUE(writing->flush(KvTier::kNoLimit).ok());
  EXPECT_THAT(sink_.ends, ElementsAre(64, 128, 150));
  writing->hand_over(identity(), fed(ids));
  EXPECT_EQ(stats(*writing).waiting, 0u);
}

TEST_F(WriteBehindTest, QueueOverflowIsCountedAndEarlierPagesAreWritten) {
  const auto writing = make(2);
  writing->hand_over(identity(), fed(random_tokens(3, 300)));
  EXPECT_EQ(stats(*writing).waiting, 2u);
  EXPECT_EQ(stats(*writing).dropped, 3u);
  EXPECT_EQ(writing->flush(KvTier::kNoLimit).code(), ErrorCode::kLimitExceeded);
  EXPECT_THAT(sink_.ends, ElementsAre(64, 128));
  EXPECT_TRUE(writing->flush(KvTier::kNoLimit).ok()) << "a loss is reported once";
}

TEST_F(WriteBehindTest, IoErrorStopsWritingForTheBackOffTime) {
  const auto writing = make();
  writing->hand_over(identity(), fed(random_tokens(4, 200)));
  sink_.next_error = Status(ErrorCode::kIo, "no disk");
  EXPECT_EQ(writing->flush(KvTier::kNoLimit).code(), ErrorCode::kIo);
  EXPECT_EQ(stats(*writing).disabled_reason, "no disk");
  EXPECT_EQ(stats(*writing).failures, 1u);
  EXPECT_EQ(stats(*writing).dropped, 4u);
  EXPECT_EQ(pool_.pages_in_use(), 0u) << "queued pages were dropped";
  clock_.advance(WriteBehind::kBackOffNs - 1);
  writing->hand_over(identity(), fed(random_tokens(4, 200)));
  EXPECT_EQ(stats(*writing).waiting, 0u);
  clock_.advance(1);
  writing->hand_over(identity(), fed(random_tokens(4, 200)));
  EXPECT_EQ(stats(*writing).waiting, 4u);
  EXPECT_EQ(stats(*writing).disabled_reason, "");
}

TEST_F(WriteBehindTest, RefusedPageDoesNotPreventLaterWrites) {
  const auto writing = make();
  writing->hand_over(identity(), fed(random_tokens(5, 200)));
  sink_.next_error = Status(ErrorCode::kLimitExceeded, "too much");
  EXPECT_EQ(writing->flush(KvTier::kNoLimit).code(), ErrorCode::kLimitExceeded);
  EXPECT_THAT(sink_.ends, ElementsAre(128, 192, 200));
  EXPECT_EQ(stats(*writing).dropped, 1u);
}

TEST_F(WriteBehindTest, PoolReclaimsPagesQueuedForWriting) {
  const auto writing = make();
  writing->hand_over(identity(), fed(random_tokens(6, 64 * 40)));
  EXPECT_EQ(pool_.pages_in_use(), 40u);
  EXPECT_TRUE(pool_.allocate(64).ok());
  EXPECT_EQ(stats(*writing).waiting, 0u);
  EXPECT_EQ(stats(*writing).dropped, 40u);
  EXPECT_EQ(writing->flush(KvTier::kNoLimit).code(), ErrorCode::kOutOfMemory);
}

TEST_F(WriteBehindTest, ForgetDropsQueuedPagesOfOneNamespaceOnly) {
  const auto writing = make();
  writing->hand_over(identity("alice"), fed(random_tokens(7, 130)));
  writing->hand_over(identity("bob"), fed(random_tokens(7, 64)));
  {
    const auto pen = sink_.take_pen();
    writing->forget(digest_of_namespace("alice"));
  }
  EXPECT_EQ(stats(*writing).waiting, 1u);
  ASSERT_TRUE(writing->flush(KvTier::kNoLimit).ok());
  EXPECT_THAT(sink_.ends, ElementsAre(64));
}

TEST_F(WriteBehindTest, DestructionDropsQueuedPages) {
  make()->hand_over(identity(), fed(random_tokens(8, 200)));
  EXPECT_TRUE(sink_.ends.empty());
  EXPECT_EQ(pool_.pages_in_use(), 0u);
  EXPECT_TRUE(pool_.allocate(64).ok()) << "the destroyed reclaimer is not called";
}

}  // namespace
}  // namespace ibid
