#include "cache/tier/file_tier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/cache/tier_fixture.h"
#include "tests/support/faulty_file_ops.h"
#include "tests/support/manual_clock.h"

namespace ibid {
namespace {

class FileTierLaws : public TierTest, public testing::WithParamInterface<KvDType> {
 protected:
  FileTierLaws() : TierTest(GetParam()) {}
};

INSTANTIATE_TEST_SUITE_P(AllTypes, FileTierLaws, testing::ValuesIn(kEveryKvDType));

TEST_P(FileTierLaws, NextProcessReadsPagesBitForBit) {
  durable_ = true;
  const Tokens ids = random_tokens(1, 64 * 3 + 17);
  const KvCacheEntry written = fed(ids);
  {
    const auto tier = open();
    tier->write_behind("alice", written);
    ASSERT_TRUE(tier->flush().ok());
    EXPECT_EQ(tier->stats().pages_written, 4u);
  }
  const auto tier = open();
  KvCacheEntry entry(pool_);
  EXPECT_EQ(tier->extend("alice", ids, entry), ids.size());
  ASSERT_EQ(entry.pages().size(), 4u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(std::memcmp(entry.page_data()[i], written.page_data()[i], layout_.page_bytes()), 0) << i;
  }
  EXPECT_EQ(read_rows(entry), fresh_rows(layout_, ids));
  EXPECT_EQ(tier->stats().hits, 1u);
  EXPECT_EQ(tier->stats().tokens_read, ids.size());
}

TEST_P(FileTierLaws, ExtendFindsAllTokensAfterAnyKnownLength) {
  const Tokens ids = random_tokens(2, 64 * 2 + 30);
  const auto tier = open();
  write(*tier, "", ids);
  for (const size_t known : {0, 1, 63, 64, 65, 100, 128, 129, 157}) {
    EXPECT_EQ(found(*tier, "", ids, known), ids.size() - known) << known;
  }
  EXPECT_EQ(found(*tier, "", ids, ids.size()), 0u);
  // Look up shorter prompts, and prompts that diverge, at various distances from page boundaries.
  for (const size_t same : {0, 1, 15, 16, 63, 64, 65, 127, 128, 150}) {
    EXPECT_EQ(found(*tier, "", TokenSpan(ids).first(same)), same) << same;
    EXPECT_EQ(found(*tier, "", concat(TokenSpan(ids).first(same), random_tokens(77, 100))), same) << same;
  }
}

TEST_P(FileTierLaws, EntryReadFromDiskContinuesLikeAComputedEntry) {
  const Tokens ids = random_tokens(3, 200);
  const auto tier = open();
  write(*tier, "", TokenSpan(ids).first(150));
  KvCacheEntry entry = fed(TokenSpan(ids).first(70));
  ASSERT_TRUE(entry.reserve(500).ok());  // extend() drops reserved pages
  ASSERT_EQ(tier->extend("", TokenSpan(ids).first(199), entry), 80u);
  ASSERT_TRUE(feed(entry, TokenSpan(ids).subspan(150)).ok());
  EXPECT_EQ(read_rows(entry), fresh_rows(layout_, ids));
}

class FileTierTest : public TierTest {};

TEST_F(FileTierTest, TurnWritesNewPagesAndReplacesThePartialPage) {
  const Tokens ids = random_tokens(4, 300);
  const auto tier = open();
  write(*tier, "", TokenSpan(ids).first(100));
  EXPECT_EQ(tier->stats().pages_written, 2u);
  write(*tier, "", TokenSpan(ids).first(100));
  EXPECT_EQ(tier->stats().pages_written, 2u);
  write(*tier, "", TokenSpan(ids).first(110));
  EXPECT_EQ(tier->stats().pages_written, 3u);
  EXPECT_EQ(tier->stats().pages, 2u);
  write(*tier, "", TokenSpan(ids).first(300));
  EXPECT_EQ(tier->stats().pages_written, 7u);
  EXPECT_EQ(page_files().size(), 5u);
  // A prefix of a stored sequence is stored already.
  write(*tier, "", TokenSpan(ids).first(70));
  EXPECT_EQ(tier->stats().pages_written, 7u);
  EXPECT_EQ(found(*tier, "", ids), 300u);
}

TEST_F(FileTierTest, SlicedPositionsAreNotWritten) {
  const Tokens ids = random_tokens(5, 60);
  KvCacheEntry entry = fed(ids);
  entry.slice_to_length(10);
  const auto tier = open();
  tier->write_behind("", entry);
  ASSERT_TRUE(tier->flush().ok());
  const std::string file = read_whole_file(directory_ + "/" + page_files().at(0));
  KvPagePool zeros(layout_, layout_.page_bytes());
  KvCacheEntry short_entry(zeros);
  ASSERT_TRUE(feed(short_entry, TokenSpan(ids).first(10)).ok());
  const size_t header = kv_page_header_bytes(layout_, 10);
  ASSERT_EQ(file.size(), header + layout_.page_bytes());
  EXPECT_EQ(std::memcmp(file.data() + header, short_entry.page_data()[0], layout_.page_bytes()), 0);
}

TEST_F(FileTierTest, BranchesShareTheirPrefixAndTheLongestMatchIsUsed) {
  const Tokens head = random_tokens(6, 64);
  const Tokens a = concat(head, random_tokens(7, 50)), b = concat(head, random_tokens(8, 50));
  const Tokens near_b = concat(TokenSpan(b).first(100), random_tokens(9, 60));
  const auto tier = open();
  write(*tier, "", a);
  write(*tier, "", b);
  EXPECT_EQ(tier->stats().pages, 3u);
  EXPECT_EQ(found(*tier, "", near_b), 100u);
  EXPECT_EQ(found(*tier, "", a), a.size());
  write(*tier, "", near_b);
  EXPECT_EQ(found(*tier, "", b), b.size());
  EXPECT_EQ(found(*tier, "", near_b), near_b.size());
}

TEST_F(FileTierTest, PagesOfOtherNamespacesAndFingerprintsAreMisses) {
  const Tokens ids = random_tokens(10, 130);
  {
    const auto tier = open();
    write(*tier, "alice", ids);
    EXPECT_EQ(found(*tier, "bob", ids), 0u);
    EXPECT_EQ(found(*tier, "", ids), 0u);
    write(*tier, "bob", TokenSpan(ids).first(70));
    EXPECT_EQ(found(*tier, "bob", ids), 70u);
    EXPECT_EQ(found(*tier, "alice", ids), 130u);
    EXPECT_EQ(tier->stats().misses, 2u);
  }
  FileTierOptions other = options();
  other.fingerprint = fingerprint_of("another model");
  {
    const auto tier = open(other);
    EXPECT_EQ(tier->stats().pages, 5u);  // unused records count towards the budget, and are evicted first
    EXPECT_EQ(found(*tier, "alice", ids), 0u);
    write(*tier, "alice", TokenSpan(ids).first(80));
    EXPECT_EQ(found(*tier, "alice", ids), 80u);
    EXPECT_EQ(tier->stats().quarantined, 0u);
  }
  const auto tier = open();
  EXPECT_EQ(found(*tier, "alice", ids), 130u);
}

TEST_F(FileTierTest, FilesOfAnotherKvLayoutAreMissesAndStay) {
  const Tokens ids = random_tokens(11, 100);
  write(*open(), "", ids);
  KvPagePool other_pool(tiny_layout(KvDType::kF16), size_t{1} << 20);
  {
    // The engine's fingerprint contains the KV type. Even if it did not, records of another type must not be used.
    const auto tier = *FileTier::open(options(), other_pool, *files_, *clock_);
    KvCacheEntry entry(other_pool);
    EXPECT_EQ(tier->extend("", ids, entry), 0u);
    EXPECT_EQ(entry.length(), 0u);
  }
}

TEST_F(FileTierTest, ClearRemovesANamespaceAndTheQuarantine) {
  const Tokens ids = random_tokens(12, 130);
  const auto tier = open();
  write(*tier, "alice", ids);
  write(*tier, "bob", ids);
  const std::string quarantine = directory_ + "/quarantine/", page = page_files()[0];
  ASSERT_TRUE(files_->rename(directory_ + "/" + page, quarantine + page).ok());
  ASSERT_TRUE(files_->create(quarantine + "notes").ok());
  ASSERT_TRUE(tier->clear("alice").ok());
  EXPECT_EQ(found(*tier, "alice", ids), 0u);
  EXPECT_THAT(*files_->list(directory_ + "/quarantine"), testing::ElementsAre("notes")) << "foreign files stay";
  EXPECT_LE(page_files().size(), 3u);
  write(*tier, "alice", TokenSpan(ids).first(64));
  EXPECT_EQ(found(*tier, "alice", ids), 64u);
}

// Two clear() calls run at once, the second for a namespace whose pages are queued. After both, no page may appear.
TEST_F(FileTierTest, ClearCancelsQueuedAndRunningWrites) {
  const KvCacheEntry entry = fed(random_tokens(40, 250));
  for (int round = 0; round < 10; ++round) {
    std::atomic<bool> closed{false}, waits{false};
    FaultyFileOps slow;
    slow.before_call = [&](std::string_view what) {
      while (closed && what == "list") {  // while the quarantine is cleared
        waits = true;
        std::this_thread::yield();
      }
    };
    files_ = &slow;
    const auto tier = open();
    closed = true;
    std::thread first([&] { EXPECT_TRUE(tier->clear("nobody").ok()); });
    while (!waits) std::this_thread::yield();
    tier->write_behind("alice", entry);
    std::thread second([&] { EXPECT_TRUE(tier->clear("alice").ok()); });
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    closed = false;
    first.join();
    second.join();
    static_cast<void>(tier->flush());
    EXPECT_TRUE(page_files().empty()) << round;
    files_ = &system_file_ops();
  }
}

// Returns a name of so few bits that different texts get the same name.
template <unsigned kBits>
PageName few_bits(const Sha256Digest& hash) {
  PageName name;
  name.bytes[0] = hash[0] & static_cast<std::byte>((1 << kBits) - 1);
  return name;
}

// With only a few different file names, names yield wrong candidates, and the comparison of tokens must reject them.
TEST_F(FileTierTest, CollidingFileNamesAreMissesAndNeverGiveWrongRows) {
  for (const PageNameRule rule : {few_bits<0>, few_bits<1>, few_bits<3>, few_bits<6>}) {
    const TempDir fresh;
    FileTierOptions few = options();
    few.directory = fresh.file("tier");
    const auto tier = open(few, rule);
    size_t total = 0;
    for (uint64_t seed = 0; seed < 40; ++seed) {
      const Tokens ids = random_tokens(seed, 40 + 10 * (seed % 20), 3);  // few values, so long common prefixes
      tier->write_behind(seed % 2 == 0 ? "alice" : "bob", fed(ids));
      ASSERT_TRUE(tier->flush().ok());
      for (uint64_t other = 0; other <= seed; ++other) {
        total += found(*tier, other % 2 == 0 ? "alice" : "bob", random_tokens(other, 40 + 10 * (other % 20), 3));
      }
    }
    EXPECT_GT(total, 0u);
    EXPECT_EQ(tier->stats().quarantined, 0u);
  }
}

TEST_F(FileTierTest, BudgetHoldsAndTailsOfSequencesAreEvictedBeforeHeads) {
  const Tokens a = random_tokens(13, 256), b = random_tokens(14, 256), c = random_tokens(15, 128);
  const auto tier = open(options(8));
  write(*tier, "", a);
  write(*tier, "", b);
  EXPECT_EQ(found(*tier, "", a), 256u);  // more recently used than b
  write(*tier, "", c);
  EXPECT_LE(tier->stats().bytes, 8 * record_bytes_);
  EXPECT_EQ(tier->stats().evicted, 2u);
  EXPECT_EQ(found(*tier, "", b), 128u);
  EXPECT_EQ(found(*tier, "", a), 256u);
  EXPECT_EQ(found(*tier, "", c), 128u);
  EXPECT_EQ(page_files().size(), 8u);
}

TEST_F(FileTierTest, LruOrderSurvivesRestartsAndClockJumps) {
  const Tokens a = random_tokens(16, 192), b = random_tokens(17, 192);
  {
    const auto tier = open();
    write(*tier, "", a);
    write(*tier, "", b);
    EXPECT_EQ(found(*tier, "", a), 192u);
  }
  ManualClock earlier(1'000'000'000);
  clock_ = &earlier;
  {
    const auto tier = open(options(4));
    EXPECT_EQ(found(*tier, "", a), 192u);
    EXPECT_EQ(found(*tier, "", b), 64u);
    EXPECT_EQ(tier->stats().evicted, 2u);
    EXPECT_EQ(found(*tier, "", TokenSpan(a).first(64)), 64u);
    EXPECT_EQ(found(*tier, "", b), 64u);
  }
  const auto tier = open(options(2));
  EXPECT_EQ(found(*tier, "", b), 64u);
  EXPECT_EQ(found(*tier, "", a), 64u);
}

TEST_F(FileTierTest, SequenceLargerThanTheBudgetKeepsItsHead) {
  const Tokens ids = random_tokens(18, 640);
  const auto tier = open(options(4));
  tier->write_behind("", fed(ids));
  EXPECT_EQ(tier->flush().code(), ErrorCode::kLimitExceeded);
  EXPECT_EQ(found(*tier, "", ids), 256u);
  EXPECT_EQ(tier->stats().dropped, 6u);
  EXPECT_TRUE(tier->stats().disabled_reason.empty());
}

TEST_F(FileTierTest, OpenOfADirectoryInUseReturnsBusy) {
  const auto tier = open();
  KvPagePool other_pool(layout_, size_t{1} << 20);
  EXPECT_EQ(FileTier::open(options(), other_pool, *files_, *clock_).status().code(), ErrorCode::kBusy);
  write(*tier, "", random_tokens(19, 64));
}

TEST_F(FileTierTest, WriteQueueIsBoundedAndTheNextCallQueuesTheRest) {
  const Tokens ids = random_tokens(20, 640);
  FileTierOptions narrow = options();
  narrow.waiting_budget_bytes = 3 * layout_.page_bytes();
  const auto tier = open(narrow);
  for (int turn = 0; turn < 10 && found(*tier, "", ids) < ids.size(); ++turn) {
    tier->write_behind("", fed(ids));
    EXPECT_LE(tier->stats().waiting, 3u);
    static_cast<void>(tier->flush());
  }
  EXPECT_EQ(found(*tier, "", ids), ids.size());
}

// With the whole pool queued for writing, a session can still allocate every page.
TEST_F(FileTierTest, PoolReclaimsPagesQueuedForWriting) {
  KvPagePool small(layout_, 8 * layout_.page_bytes());
  FileTierOptions wide = options();
  wide.waiting_budget_bytes = small.budget_bytes();
  const auto tier = *FileTier::open(wide, small, *files_, *clock_);
  for (uint64_t round = 0; round < 50; ++round) {
    {
      KvCacheEntry entry(small);
      ASSERT_TRUE(feed(entry, random_tokens(1000 + round, 512)).ok());
      tier->write_behind("", entry);
    }
    const Result<std::vector<KvPage>> all = small.allocate(8);
    ASSERT_TRUE(all.ok()) << all.status().to_string();
  }
  const KvTierStats stats = tier->stats();
  EXPECT_GT(stats.dropped + stats.pages_written, 0u);
}

TEST_F(FileTierTest, AllCallsMayRunConcurrently) {
  const auto tier = open(options(12));
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 30; ++i) {
        const Tokens ids = random_tokens((t + i) % 7, 150);
        const std::string name_space = (t + i) % 2 == 0 ? "alice" : "bob";
        static_cast<void>(found(*tier, name_space, ids));
        tier->write_behind(name_space, fed(ids));
        if (i % 10 == 9) static_cast<void>(tier->clear(name_space));
        if (i % 5 == 4) static_cast<void>(tier->flush());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  static_cast<void>(tier->flush());
  const KvTierStats stats = tier->stats();
  EXPECT_EQ(stats.failures, 0u);
  EXPECT_EQ(stats.quarantined, 0u);
  EXPECT_EQ(page_files().size(), stats.pages);
  EXPECT_LE(stats.bytes, 12 * record_bytes_);
}

}  // namespace
}  // namespace ibid
