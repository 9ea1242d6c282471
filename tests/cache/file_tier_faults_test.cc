// The cold tier when disks or allocations fail, and with foreign or damaged files in its directory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "cache/tier/file_tier.h"
#include "tests/cache/tier_fixture.h"
#include "tests/support/failing_new.h"
#include "tests/support/faulty_file_ops.h"
#include "tests/support/memory_file_ops.h"

namespace ibid {
namespace {

namespace fs = std::filesystem;

class FileTierFaults : public TierTest {
 protected:
  explicit FileTierFaults(KvLayout layout = tiny_layout(KvDType::kF32)) : TierTest(std::move(layout)) {}
  std::string path_of_page(size_t i) { return directory_ + "/" + page_files().at(i); }
  void overwrite(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }
};

// Models with and without recurrent layers and windows.
class FileTierFaultsOfEveryKind : public FileTierFaults, public testing::WithParamInterface<TinyKind> {
 protected:
  FileTierFaultsOfEveryKind() : FileTierFaults(tiny_layout(GetParam())) {}
  bool has_windows() const { return layout_.window() > 0; }
};
INSTANTIATE_TEST_SUITE_P(EveryKind, FileTierFaultsOfEveryKind, testing::ValuesIn(kEveryTinyKind));

TEST_F(FileTierFaults, PageWithAFlippedBitIsAMissAndQuarantined) {
  const Tokens ids = random_tokens(1, 40);
  const std::string sound = [&] {
    write(*open(), "", ids);
    return read_whole_file(path_of_page(0));
  }();
  const std::string name = page_files()[0];
  std::mt19937_64 rng(2);
  for (int i = 0; i < 300; ++i) {
    const size_t bit = i < 128 ? static_cast<size_t>(i) * 8 + rng() % 8 : rng() % (8 * sound.size());
    std::string bytes = sound;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    overwrite(directory_ + "/" + name, bytes);
    const auto tier = open();  // may quarantine the file, or find another fingerprint or version
    EXPECT_EQ(found(*tier, "", ids), 0u) << bit;
    EXPECT_EQ(found(*tier, "", ids), 0u) << bit;
    EXPECT_LE(files_->list(directory_ + "/quarantine")->size(), TierDirectory::kMaxQuarantined);
    write(*tier, "", ids);  // and it can be written again
    EXPECT_EQ(found(*tier, "", ids), ids.size()) << bit;
  }
}

TEST_F(FileTierFaults, FilesOfWrongLengthAreMisses) {
  const Tokens ids = random_tokens(3, 100);
  write(*open(), "", ids);
  std::vector<std::string> sound;
  for (const std::string& name : page_files()) sound.push_back(read_whole_file(directory_ + "/" + name));
  const std::vector<std::string> names = page_files();
  const auto lengths = [](size_t size) {
    return std::vector<size_t>{0, 1, 127, 128, 300, size - 1, size + 1, 2 * size};
  };
  for (size_t k = 0; k < lengths(1).size(); ++k) {
    for (const bool while_open : {false, true}) {
      for (size_t i = 0; i < names.size(); ++i) overwrite(directory_ + "/" + names[i], sound[i]);
      auto tier = while_open ? open() : nullptr;
      for (size_t i = 0; i < names.size(); ++i) {
        std::string bytes = sound[i];
        bytes.resize(lengths(bytes.size())[k]);
        overwrite(directory_ + "/" + names[i], bytes);
      }
      if (!while_open) tier = open();
      EXPECT_EQ(found(*tier, "", ids), 0u);
      EXPECT_GE(tier->stats().quarantined, 1u);
    }
  }
}

TEST_F(FileTierFaults, PagesOfThePreviousFormatAreMissesAndNotQuarantined) {
  const Tokens ids = random_tokens(3, 200);
  write(*open(), "", ids);
  const std::vector<std::string> names = page_files();
  ASSERT_EQ(names.size(), 4u);
  for (const std::string& name : names) {
    std::string bytes = read_whole_file(directory_ + "/" + name);
    ASSERT_EQ(bytes[8], 4);
    bytes[8] = 3;
    overwrite(directory_ + "/" + name, bytes);
  }
  const auto tier = open();
  EXPECT_EQ(found(*tier, "", ids), 0u);
  EXPECT_EQ(found(*tier, "", TokenSpan(ids).first(70)), 0u);
  EXPECT_EQ(tier->stats().quarantined, 0u);
  EXPECT_EQ(page_files(), names) << "they are evicted in LRU order";
  write(*tier, "", ids);
  EXPECT_EQ(found(*tier, "", ids), 200u) << "pages of the current format replace them";
}

TEST_F(FileTierFaults, PagesBeforeADamagedPageAreUsed) {
  const Tokens ids = random_tokens(4, 256);
  const auto tier = open();
  write(*tier, "", ids);
  for (const std::string& name : page_files()) {
    std::string bytes = read_whole_file(directory_ + "/" + name);
    if (parse_kv_record_header(std::as_bytes(std::span(bytes)))->first_position != 128) continue;
    bytes[bytes.size() - 100] ^= 1;
    overwrite(directory_ + "/" + name, bytes);
  }
  EXPECT_EQ(found(*tier, "", ids), 128u);
  EXPECT_EQ(tier->stats().quarantined, 1u);
  EXPECT_EQ(found(*tier, "", ids, 192), 64u) << "pages after the damaged one are used once that was computed";
}

TEST_F(FileTierFaults, FilesLeftByACrashAreRemovedAndForeignFilesStay) {
  const Tokens ids = random_tokens(5, 64);
  write(*open(), "", ids);
  overwrite(directory_ + "/7.tmp", "half a page");
  overwrite(directory_ + "/notes.txt", "mine");
  const std::string bogus(32, 'a');
  overwrite(directory_ + "/" + bogus + "-" + bogus + ".kv", "");
  fs::create_directory(directory_ + "/" + bogus + "-" + std::string(32, 'b') + ".kv");
  const auto tier = open();
  EXPECT_FALSE(fs::exists(directory_ + "/7.tmp"));
  EXPECT_TRUE(fs::exists(directory_ + "/notes.txt"));
  EXPECT_EQ(tier->stats().quarantined, 1u);
  EXPECT_EQ(tier->stats().pages, 1u);
  EXPECT_EQ(found(*tier, "", ids), 64u);
}

TEST_F(FileTierFaults, SymlinksAreNeverFollowed) {
  const Tokens ids = random_tokens(6, 64), others = random_tokens(7, 64);
  std::string elsewhere = dir_.file("elsewhere");
  {
    const auto tier = open();
    write(*tier, "", ids);
    const std::string page = path_of_page(0);
    ASSERT_TRUE(files_->rename(page, elsewhere).ok());
    fs::create_symlink(elsewhere, page);
    EXPECT_EQ(found(*tier, "", ids), 0u);
    write(*tier, "", others);
  }
  const std::string page = path_of_page(0);
  ASSERT_TRUE(files_->remove(page).ok());
  fs::create_symlink(elsewhere, page);
  fs::create_symlink(dir_.file("planted"), directory_ + "/0.tmp");
  const auto tier = open();
  EXPECT_EQ(found(*tier, "", others), 0u);
  write(*tier, "", others);
  EXPECT_FALSE(fs::exists(dir_.file("planted")));
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(page)));
  EXPECT_GT(fs::file_size(elsewhere), 0u);
  ASSERT_TRUE(files_->remove(directory_ + "/lock").ok());
}

TEST_F(FileTierFaults, DeletedDirectoryCausesMissesAndAPauseOfWriting) {
  const Tokens ids = random_tokens(8, 130);
  const auto tier = open();
  write(*tier, "", ids);
  fs::remove_all(directory_);
  EXPECT_EQ(found(*tier, "", ids), 0u);
  tier->write_behind("", fed(random_tokens(9, 64)));
  EXPECT_EQ(tier->flush().code(), ErrorCode::kIo);
  EXPECT_FALSE(tier->stats().disabled_reason.empty());
}

TEST_F(FileTierFaults, UnwritableDirectoryReturnsAnIoError) {
  overwrite(dir_.file("file"), "");
  FileTierOptions wrong = options();
  wrong.directory = dir_.file("file");
  EXPECT_EQ(FileTier::open(wrong, pool_, *files_, *clock_).status().code(), ErrorCode::kIo);
  fs::create_directory(dir_.file("read_only"));
  ASSERT_EQ(::chmod(dir_.file("read_only").c_str(), 0500), 0);
  if (::geteuid() != 0) {
    wrong.directory = dir_.file("read_only");
    EXPECT_EQ(FileTier::open(wrong, pool_, *files_, *clock_).status().code(), ErrorCode::kIo);
  }
}

TEST_F(FileTierFaults, WriteToAFullDiskIsDroppedAndRetriedAfter30Seconds) {
  FaultyFileOps faulty;
  files_ = &faulty;
  const Tokens a = random_tokens(10, 100), b = random_tokens(11, 200);
  const auto tier = open();
  write(*tier, "", a);
  faulty.crash_at_call(1);  // the call before it, which creates the file, succeeds
  tier->write_behind("", fed(b));
  EXPECT_EQ(tier->flush().code(), ErrorCode::kIo);
  const KvTierStats failed = tier->stats();
  EXPECT_EQ(failed.failures, 1u);
  EXPECT_THAT(failed.disabled_reason, testing::HasSubstr("fault"));
  faulty.recover();
  const int calls = faulty.calls();
  manual_clock_.advance(WriteBehind::kBackOffNs - 1);
  tier->write_behind("", fed(b));
  EXPECT_EQ(tier->flush().code(), ErrorCode::kIo);
  EXPECT_EQ(faulty.calls(), calls) << "the disk was accessed too early";
  EXPECT_EQ(found(*tier, "", a), a.size()) << "reading still works";
  manual_clock_.advance(1);
  write(*tier, "", b);
  EXPECT_EQ(found(*tier, "", b), b.size());
  EXPECT_TRUE(tier->stats().disabled_reason.empty());
}

// Writes, evicts, reads, clears and reopens. Any call may fail; all that is found later must be right.
class FileTierScenario : public FileTierFaultsOfEveryKind {
 protected:
  // With windows, c_ is so long that pages leave the window.
  const Tokens a_ = random_tokens(20, 150), b_ = random_tokens(21, 200),
               c_ = random_tokens(22, has_windows() ? 450 : 100);
  // Size of the budget in pages. With windows all pages fit, so that everything must be found: with a small budget,
  // rewriting a page with a missing part may evict the end of its own sequence.
  const uint64_t n_pages_ = has_windows() ? 20 : 5;

  void run(FileOps& files) {
    KvCacheEntry live = fed(TokenSpan(a_).first(30));
    const std::vector<float> before = read_rows(live);
    const KvCacheEntry other = *live.fork();
    for (int process = 0; process < 2; ++process) {
      FileTierOptions wanted = options(n_pages_);
      wanted.durable = true;
      const Result<std::unique_ptr<FileTier>> opened = FileTier::open(wanted, pool_, files, *clock_);
      if (!opened.ok()) continue;
      FileTier& tier = **opened;
      tier.write_behind("", fed(TokenSpan(a_).first(80)));
      static_cast<void>(tier.flush());
      manual_clock_.advance(WriteBehind::kBackOffNs);
      if (has_windows()) {
        KvCacheEntry first_parts(pool_);
        EXPECT_TRUE(feed_in_passes(first_parts, c_, 20).ok());
        lose_windows(pool_, first_parts);
        tier.write_behind("", first_parts);
        static_cast<void>(tier.flush());
        manual_clock_.advance(WriteBehind::kBackOffNs);
      }
      for (const Tokens* ids : {&a_, &b_, &c_}) {
        tier.write_behind("", fed(*ids));
        static_cast<void>(tier.flush());
        manual_clock_.advance(WriteBehind::kBackOffNs);
        static_cast<void>(found(tier, "", *ids, 30));
      }
      static_cast<void>(tier.clear("nobody"));
      EXPECT_LE(tier.stats().bytes, n_pages_ * record_bytes_);
    }
    EXPECT_EQ(read_rows(other), before) << "a live entry was touched";
  }
  void expect_sound(FileOps& files) {
    files_ = &files;
    const auto tier = open(options(n_pages_));
    ASSERT_NE(tier, nullptr);
    static_cast<void>(found(*tier, "", a_));
    EXPECT_EQ(tier->stats().quarantined, 0u) << "a torn page got its final name";
    for (const Tokens* ids : {&a_, &b_, &c_}) {
      write(*tier, "", *ids);
      EXPECT_EQ(found(*tier, "", *ids), ids->size());
    }
    EXPECT_EQ(page_files().size(), tier->stats().pages);
    EXPECT_EQ(state_files().size(), tier->stats().states);
  }
};

INSTANTIATE_TEST_SUITE_P(EveryKind, FileTierScenario, testing::ValuesIn(kEveryTinyKind));

TEST_P(FileTierScenario, AnyFileCallMayFailOnceOrPermanently) {
  int n_calls = 0;
  {
    MemoryFileOps memory;
    FaultyFileOps counted(memory);
    run(counted);
    n_calls = counted.calls();
  }
  ASSERT_GT(n_calls, 100);
  for (const bool for_good : {false, true}) {
    for (const int error : {EIO, ENOSPC, EMFILE, EACCES}) {
      if (for_good && error != EIO) continue;
      if (has_windows() && error != EIO) continue;  // one kind of error suffices for windows
      for (int call = 0; call < n_calls; ++call) {
        MemoryFileOps memory;
        FaultyFileOps faulty(memory);
        faulty.fail_call(call, error);
        if (for_good) faulty.crash_at_call(call);
        run(faulty);
        if (HasFailure()) FAIL() << "call " << call << (for_good ? " and all after it" : "");
        expect_sound(memory);
        if (HasFailure()) FAIL() << "after call " << call;
      }
    }
  }
}

TEST_P(FileTierFaultsOfEveryKind, ExtendThatRunsOutOfHeapMemoryIsAMiss) {
  const Tokens ids = random_tokens(30, 200);
  MemoryFileOps memory;
  files_ = &memory;
  const auto tier = open();
  write(*tier, "", ids);
  for (size_t n = 0;; ++n) {
    KvCacheEntry entry = fed(TokenSpan(ids).first(30));
    bool fired = false;
    size_t added = 0;
    {
      const FailingNew fault(n);
      added = tier->extend("", ids, entry);
      fired = fault.has_failed();
    }
    ASSERT_EQ(entry.length(), 30 + added) << n;
    ASSERT_EQ(read_rows(entry), fresh_rows(layout_, TokenSpan(ids).first(30 + added))) << n;
    ASSERT_EQ(read_states(entry), fresh_states(layout_, TokenSpan(ids).first(30 + added))) << n;
    if (!fired) {
      EXPECT_EQ(added, 170u);
      EXPECT_GT(n, 10u);
      break;
    }
  }
  EXPECT_EQ(tier->stats().quarantined, 0u);
  EXPECT_EQ(found(*tier, "", ids), 200u);
}

TEST_P(FileTierFaultsOfEveryKind, WriteThatRunsOutOfHeapMemoryDropsPages) {
  const Tokens ids = random_tokens(31, 200);
  for (const bool sticky : {false, true}) {
    for (size_t n = 0;; ++n) {
      MemoryFileOps memory;
      files_ = &memory;
      const auto tier = open();
      write(*tier, "", TokenSpan(ids).first(90));
      KvCacheEntry entry = fed(ids);
      bool fired = false;
      {
        const FailingNew fault(n, sticky, FailingNew::Threads::kAll);
        tier->write_behind("", entry);
        static_cast<void>(tier->flush());
        fired = fault.has_failed();
      }
      ASSERT_EQ(read_rows(entry), fresh_rows(layout_, ids)) << n;
      ASSERT_GE(found(*tier, "", ids), 90u) << n;
      ASSERT_EQ(page_files().size(), tier->stats().pages) << n;
      manual_clock_.advance(WriteBehind::kBackOffNs);
      write(*tier, "", ids);
      ASSERT_EQ(found(*tier, "", ids), 200u) << n;
      if (!fired) {
        EXPECT_GT(n, 20u);
        break;
      }
    }
  }
}

}  // namespace
}  // namespace ibid
