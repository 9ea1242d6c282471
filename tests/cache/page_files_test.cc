#include "cache/tier/page_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cache/tiny_kv.h"
#include "tests/support/faulty_file_ops.h"
#include "tests/support/manual_clock.h"
#include "tests/support/memory_file_ops.h"

namespace ibid {
namespace {

class PageFilesTest : public testing::Test {
 protected:
  std::unique_ptr<PageFiles> open(uint64_t budget_pages = 100) {
    return *PageFiles::open({.directory = "tier", .budget_bytes = budget_pages * kv_page_record_bytes(layout_, 64)},
                            layout_, files_, clock_);
  }
  // Writes the pages of the sequence in order, and makes them durable.
  Status write(PageFiles& files, const Tokens& ids) {
    KvCacheEntry entry(pool_);
    EXPECT_TRUE(feed(entry, ids).ok());
    PageNamer namer(first_half);
    const auto tokens = std::make_shared<const Tokens>(ids);
    PageName before_that;
    TextName before = namer.first(identity_);
    const auto pen = files.take_pen();
    for (size_t i = 0; i < entry.pages().size(); ++i) {
      WaitingPage page{identity_, before_that, before, {}, tokens, std::min(ids.size(), (i + 1) * kPagePositions), {}};
      const TextName after = namer.next(before, page.page_ids());
      page.name = after.name;
      TRY(files.write(page, {entry.page_data()[i], layout_.page_bytes()}, KvPageParts::kBoth));
      before_that = std::exchange(before, after).name;
    }
    return files.settle();
  }
  static KvTierStats stats(const PageFiles& files) {
    KvTierStats stats;
    files.add_to(stats);
    return stats;
  }

  const Fingerprint fingerprint_ = FingerprintBuilder().add("test", "model").finish();
  const KvPageIdentity identity_{fingerprint_, digest_of_namespace("")};
  const KvLayout layout_ = tiny_layout(KvDType::kF32);
  KvPagePool pool_{layout_, 64 * layout_.page_bytes()};
  MemoryFileOps memory_;
  FaultyFileOps files_{memory_};
  ManualClock clock_{1'700'000'000'000'000'000};
};

TEST_F(PageFilesTest, WrittenPagesAreFoundAfterReopening) {
  const Tokens ids = random_tokens(1, 150);
  ASSERT_TRUE(write(*open(), ids).ok());
  const auto files = open();
  EXPECT_EQ(stats(*files).pages, 3u);
  const std::vector<PageFiles::Found> found = files->find(identity_, ids, 0);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[2].file.n_rows, 22u);
  EXPECT_EQ(found[2].n_used, 150u);
  std::vector<std::byte> scratch, page(layout_.page_bytes());
  for (const PageFiles::Found& file : found) {
    EXPECT_TRUE(files->read(file, identity_, ids, scratch, page.data()).ok());
  }
  EXPECT_EQ(files->find(identity_, ids, 130).size(), 1u) << "only the page after the known prefix";
  EXPECT_EQ(files->find(identity_, ids, 150).size(), 0u);
}

TEST_F(PageFilesTest, PagesWithoutTheirPredecessorAreNotWritten) {
  const auto files = open(2);
  EXPECT_EQ(write(*files, random_tokens(2, 300)).code(), ErrorCode::kLimitExceeded);
  EXPECT_EQ(stats(*files).pages, 2u);
  EXPECT_EQ(stats(*files).pages_written, 2u);
  ASSERT_TRUE(write(*files, random_tokens(3, 64)).ok());
  EXPECT_EQ(stats(*files).evicted, 1u);
}

TEST_F(PageFilesTest, PartialPageIsRemovedAfterALongerPageIsWritten) {
  const Tokens ids = random_tokens(4, 60);
  const auto files = open();
  ASSERT_TRUE(write(*files, Tokens(ids.begin(), ids.begin() + 40)).ok());
  ASSERT_TRUE(write(*files, ids).ok());
  EXPECT_EQ(stats(*files).pages, 1u);
  EXPECT_TRUE(files->has({PageNamer(first_half).first(identity_).name, {}, ids}, KvPageParts::kBoth));
}

// The page was queued twice, and the pool evicted its window part before the second write.
TEST(PageFilesOfWindows, FirstPartOfAPageDoesNotReplaceTheWholePage) {
  const KvLayout layout = tiny_layout(TinyKind::kWindowed);
  const KvPageIdentity identity{FingerprintBuilder().add("test", "model").finish(), digest_of_namespace("")};
  MemoryFileOps memory;
  ManualClock clock{1'700'000'000'000'000'000};
  const auto files = *PageFiles::open({.directory = "tier", .budget_bytes = 1u << 20}, layout, memory, clock);
  const std::vector<std::byte> rows(layout.page_bytes());
  const auto tokens = std::make_shared<const Tokens>(random_tokens(1, 64));
  PageNamer namer(first_half);
  WaitingPage page{identity, {}, namer.first(identity), {}, tokens, 64, {}};
  page.name = namer.next(page.before, page.page_ids()).name;
  const auto pen = files->take_pen();
  for (const KvPageParts parts : {KvPageParts::kFirst, KvPageParts::kBoth, KvPageParts::kFirst}) {
    ASSERT_TRUE(files->write(page, rows, parts).ok());
  }
  EXPECT_TRUE(files->has({page.before.name, page.name, page.page_ids()}, KvPageParts::kBoth));
  KvTierStats stats;
  files->add_to(stats);
  EXPECT_EQ(stats.pages, 1u);
  EXPECT_EQ(stats.pages_written, 2u);
  EXPECT_EQ(stats.bytes, kv_page_record_bytes(layout, 64));
}

TEST_F(PageFilesTest, OnlyDamagedFilesAreQuarantined) {
  const Tokens ids = random_tokens(5, 64);
  const auto files = open();
  ASSERT_TRUE(write(*files, ids).ok());
  const PageFiles::Found file = files->find(identity_, ids, 0).at(0);
  files->give_up(file.file.file_name, Status(ErrorCode::kOutOfMemory, ""));
  files->give_up(file.file.file_name, Status(ErrorCode::kMismatch, ""));
  EXPECT_EQ(files->find(identity_, ids, 0).size(), 1u);
  files->give_up(file.file.file_name, Status(ErrorCode::kCorrupt, ""));
  EXPECT_EQ(files->find(identity_, ids, 0).size(), 0u);
  EXPECT_EQ(stats(*files).quarantined, 1u);
  files->give_up(file.file.file_name, Status(ErrorCode::kCorrupt, ""));
  EXPECT_EQ(stats(*files).quarantined, 1u) << "quarantined only once";
}

// The page was written again after the reader missed the file, and before the reader reported that.
TEST_F(PageFilesTest, FileWrittenAgainAfterAMissIsKept) {
  const Tokens ids = random_tokens(7, 64);
  const auto files = open();
  ASSERT_TRUE(write(*files, ids).ok());
  const PageFiles::Found file = files->find(identity_, ids, 0).at(0);
  files->give_up(file.file.file_name, Status(ErrorCode::kNotFound, ""));
  EXPECT_EQ(files->find(identity_, ids, 0).size(), 1u);
  EXPECT_EQ(stats(*files).failures, 0u);
  ASSERT_TRUE(memory_.remove("tier/" + file.file.file_name).ok());
  files->give_up(file.file.file_name, Status(ErrorCode::kNotFound, ""));
  EXPECT_EQ(files->find(identity_, ids, 0).size(), 0u);
  EXPECT_EQ(stats(*files).failures, 1u);
}

TEST_F(PageFilesTest, ClearRemovesANamespaceAndReportsFailures) {
  const auto files = open();
  ASSERT_TRUE(write(*files, random_tokens(6, 130)).ok());
  const auto pen = files->take_pen();
  EXPECT_TRUE(files->clear(digest_of_namespace("nobody")).ok());
  EXPECT_EQ(stats(*files).pages, 3u);
  files_.fail_call(1);
  EXPECT_EQ(files->clear(identity_.name_space).code(), ErrorCode::kIo);
  EXPECT_EQ(stats(*files).pages, 1u);
  EXPECT_TRUE(files->clear(identity_.name_space).ok());
  EXPECT_EQ(stats(*files).pages, 0u);
}

}  // namespace
}  // namespace ibid
