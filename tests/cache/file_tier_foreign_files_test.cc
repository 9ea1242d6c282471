// Entries in the cold tier's directory that the tier did not make ("foreign") are never read, moved or removed, and
// never hinder it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "cache/tier/file_tier.h"
#include "tests/cache/tier_fixture.h"

namespace ibid {
namespace {

namespace fs = std::filesystem;

const std::string kBadPage = std::string(32, 'a') + "-" + std::string(32, 'b') + ".kv";

class ForeignFiles : public TierTest {
 protected:
  ForeignFiles() {
    fs::create_directory(directory_);
    EXPECT_EQ(::chmod(directory_.c_str(), 0700), 0);
  }
  // Opens, writes, reads and clears: everything that a tier does to its directory.
  void use() {
    const Tokens ids = random_tokens(1, 130);
    const auto tier = open();
    ASSERT_NE(tier, nullptr);
    write(*tier, "", ids);
    EXPECT_EQ(found(*tier, "", ids), ids.size());
    ASSERT_TRUE(tier->clear("").ok());
    write(*tier, "", ids);
  }
  std::string in_tier(const std::string& name) const { return "tier/" + name; }
};

TEST_F(ForeignFiles, OnlyNumberedTemporaryFilesAreRemoved) {
  const char* theirs[] = {"thesis.tmp", ".tmp", "12a.tmp", "1.2.tmp", "-1.tmp", "7.tmp.tmp", "7.TMP", "notes"};
  for (const char* name : theirs) dir_.write(in_tier(name), "my thesis");
  for (const char* name : {"0.tmp", "12.tmp", "18446744073709551616.tmp"}) dir_.write(in_tier(name), "half a page");
  use();
  for (const char* name : theirs) EXPECT_EQ(read_whole_file(directory_ + "/" + name), "my thesis") << name;
  for (const char* name : {"0.tmp", "12.tmp", "18446744073709551616.tmp"}) {
    EXPECT_FALSE(fs::exists(directory_ + "/" + name)) << name;
  }
}

TEST_F(ForeignFiles, DirectoriesAndLinksNamedLikeTierFilesStay) {
  fs::create_directories(directory_ + "/0.tmp/mine");
  fs::create_directories(directory_ + "/" + kBadPage);
  dir_.write("elsewhere", "my thesis");
  fs::create_symlink(dir_.file("elsewhere"), directory_ + "/1.tmp");
  use();
  EXPECT_TRUE(fs::is_directory(directory_ + "/0.tmp/mine"));
  EXPECT_TRUE(fs::is_directory(directory_ + "/" + kBadPage));
  EXPECT_TRUE(fs::is_symlink(directory_ + "/1.tmp"));
  EXPECT_EQ(read_whole_file(dir_.file("elsewhere")), "my thesis");
}

TEST_F(ForeignFiles, QuarantineCleanupRemovesOnlyRecords) {
  fs::create_directory(directory_ + "/quarantine");
  ASSERT_EQ(::chmod((directory_ + "/quarantine").c_str(), 0700), 0);
  for (int i = 0; i < 20; ++i) dir_.write(in_tier("quarantine/notes" + std::to_string(i)), "my thesis");
  fs::create_directory(directory_ + "/quarantine/" + std::string(32, 'c') + "-" + std::string(32, 'd') + ".kv");
  dir_.write(in_tier(kBadPage), "no page");
  {
    const auto tier = open();
    EXPECT_EQ(tier->stats().quarantined, 1u);
    EXPECT_TRUE(fs::exists(directory_ + "/quarantine/" + kBadPage));
  }
  use();
  EXPECT_FALSE(fs::exists(directory_ + "/quarantine/" + kBadPage)) << "clear() removes it";
  EXPECT_EQ(files_->list(directory_ + "/quarantine")->size(), 21u);
}

// If quarantine/ is foreign, it is not used: invalid records are removed instead, and nothing else is.
TEST_F(ForeignFiles, ForeignQuarantineIsNotUsed) {
  for (const char* kind : {"symlink", "file", "open to others"}) {
    SCOPED_TRACE(kind);
    fs::remove_all(directory_ + "/quarantine");
    fs::create_directory(dir_.file(kind));
    for (int i = 0; i < 20; ++i) dir_.write(kind + ("/" + std::to_string(i)), "my thesis");
    dir_.write(kind + ("/" + kBadPage), "my thesis");
    if (kind == std::string("symlink")) {
      fs::create_directory_symlink(dir_.file(kind), directory_ + "/quarantine");
    } else if (kind == std::string("file")) {
      dir_.write(in_tier("quarantine"), "my thesis");
    } else {
      fs::create_directory(directory_ + "/quarantine");
      ASSERT_EQ(::chmod((directory_ + "/quarantine").c_str(), 0777), 0);
    }
    dir_.write(in_tier(kBadPage), "no page");
    use();
    EXPECT_FALSE(fs::exists(directory_ + "/" + kBadPage));
    EXPECT_EQ(files_->list(dir_.file(kind))->size(), 21u);
    EXPECT_EQ(read_whole_file(dir_.file(kind) + ("/" + kBadPage)), "my thesis");
  }
}

TEST_F(ForeignFiles, ForeignDirectoryIsRefusedWithARemedy) {
  const auto refused = [&] { return FileTier::open(options(), pool_, *files_, *clock_).status(); };
  ASSERT_EQ(::chmod(directory_.c_str(), 0777), 0);
  EXPECT_EQ(refused().code(), ErrorCode::kUnsafePath);
  EXPECT_THAT(refused().message(), testing::AllOf(testing::HasSubstr(directory_), testing::HasSubstr("chmod 700")));
  EXPECT_TRUE(fs::is_empty(directory_)) << "no file was created in it";
  fs::rename(directory_, dir_.file("elsewhere"));
  ASSERT_EQ(::chmod(dir_.file("elsewhere").c_str(), 0700), 0);
  fs::create_directory_symlink(dir_.file("elsewhere"), directory_);
  EXPECT_EQ(refused().code(), ErrorCode::kUnsafePath);
  EXPECT_TRUE(fs::is_empty(dir_.file("elsewhere")));
}

}  // namespace
}  // namespace ibid
