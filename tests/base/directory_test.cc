// Private directories: who may open one, and that all operations stay within the directory that was opened.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/file_ops.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

namespace fs = std::filesystem;

class DirectoryTest : public testing::Test {
 protected:
  std::unique_ptr<Directory> open(const std::string& path) {
    Result<std::unique_ptr<Directory>> directory = system_file_ops().open_directory(path);
    EXPECT_TRUE(directory.ok()) << directory.status().to_string();
    return directory.ok() ? *std::move(directory) : nullptr;
  }
  Status refused(const std::string& path) { return system_file_ops().open_directory(path).status(); }
  static void write(Directory& directory, const std::string& name, std::string_view text) {
    Result<std::unique_ptr<File>> file = directory.create_new(name);
    ASSERT_TRUE(file.ok()) << file.status().to_string();
    ASSERT_TRUE((*file)->write(std::as_bytes(std::span(text))).ok());
  }
  static unsigned mode_of(const std::string& path) {
    struct stat info {};
    EXPECT_EQ(::lstat(path.c_str(), &info), 0);
    return info.st_mode & 0777u;
  }

  const TempDir dir_;
};

TEST_F(DirectoryTest, NewDirectoriesAndFilesArePrivate) {
  const auto directory = open(dir_.file("a/b"));
  EXPECT_EQ(mode_of(dir_.file("a/b")), 0700u);
  ASSERT_TRUE(directory->open_directory("c").ok());
  EXPECT_EQ(mode_of(dir_.file("a/b/c")), 0700u);
  write(*directory, "f", "secret");
  EXPECT_EQ(mode_of(dir_.file("a/b/f")), 0600u);
  ASSERT_TRUE(open(dir_.file("a/b")) != nullptr) << "reopening works";
}

TEST_F(DirectoryTest, SharedDirectoriesAreRefusedWithARemedy) {
  for (const mode_t mode : {0755, 0777, 0770, 0710, 0701, 0702, 01777}) {
    const std::string path = dir_.file("shared");
    fs::create_directory(path);
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    const Status status = refused(path);
    EXPECT_EQ(status.code(), ErrorCode::kUnsafePath) << mode;
    EXPECT_THAT(status.message(), testing::AllOf(testing::StartsWith(path), testing::HasSubstr("chmod 700")));
  }
  ASSERT_EQ(::chmod(dir_.file("shared").c_str(), 0700), 0);
  const auto directory = open(dir_.file("shared"));
  fs::create_directory(dir_.file("shared/inner"));
  ASSERT_EQ(::chmod(dir_.file("shared/inner").c_str(), 0750), 0);
  EXPECT_EQ(directory->open_directory("inner").status().code(), ErrorCode::kUnsafePath);
}

TEST_F(DirectoryTest, DirectoriesOfOtherUsersAreRefused) {
  if (::geteuid() != 0) {
    EXPECT_EQ(refused("/").code(), ErrorCode::kUnsafePath);
    return;
  }
  fs::create_directory(dir_.file("theirs"));
  ASSERT_EQ(::chmod(dir_.file("theirs").c_str(), 0700), 0);
  ASSERT_EQ(::chown(dir_.file("theirs").c_str(), 12345, 12345), 0);
  const Status status = refused(dir_.file("theirs"));
  EXPECT_EQ(status.code(), ErrorCode::kUnsafePath);
  EXPECT_THAT(status.message(), testing::HasSubstr("12345"));
}

TEST_F(DirectoryTest, SymlinksAreRefusedInEverySpellingOfTheirPath) {
  ASSERT_TRUE(open(dir_.file("real")) != nullptr);
  fs::create_directory_symlink(dir_.file("real"), dir_.file("link"));
  for (const char* end : {"", "/", "//", "/.", "/./"}) {
    EXPECT_EQ(refused(dir_.file("link") + end).code(), ErrorCode::kUnsafePath) << end;
    EXPECT_TRUE(open(dir_.file("real") + end) != nullptr) << end;
  }
  fs::create_directory_symlink(dir_.file("nowhere"), dir_.file("real/inner"));
  EXPECT_EQ(open(dir_.file("real"))->open_directory("inner").status().code(), ErrorCode::kUnsafePath);
  EXPECT_FALSE(fs::exists(dir_.file("nowhere")));
  EXPECT_EQ(refused(dir_.write("file", "")).code(), ErrorCode::kIo);
  EXPECT_EQ(refused(dir_.file("file") + "/below").code(), ErrorCode::kIo);
}

// Another process that may write to the parent moves the directory away and creates another one in its place.
TEST_F(DirectoryTest, OperationsStayInTheOpenedDirectory) {
  const auto directory = open(dir_.file("kv"));
  write(*directory, "f", "ours");
  const auto inner = *directory->open_directory("inner");
  fs::rename(dir_.file("kv"), dir_.file("moved"));
  fs::create_directories(dir_.file("kv/inner"));
  dir_.write("kv/f", "theirs");
  dir_.write("kv/inner/g", "theirs");
  write(*directory, "g", "more");
  ASSERT_TRUE(directory->rename("g", *inner, "g").ok());
  ASSERT_TRUE(directory->set_mtime("f", 1'700'000'000'123'456'789).ok());
  const Result<FileInfo> info = directory->info("f");
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->size, 4u);
  EXPECT_EQ(info->mtime_ns, 1'700'000'000'123'456'789);
  ASSERT_TRUE(directory->remove("f").ok());
  ASSERT_TRUE(directory->sync().ok());
  EXPECT_THAT(*directory->list(), testing::ElementsAre("inner"));
  EXPECT_THAT(*inner->list(), testing::ElementsAre("g"));
  EXPECT_EQ(read_whole_file(dir_.file("moved/inner/g")), "more");
  EXPECT_EQ(read_whole_file(dir_.file("kv/f")), "theirs");
  EXPECT_EQ(read_whole_file(dir_.file("kv/inner/g")), "theirs");
}

TEST_F(DirectoryTest, SymlinksInTheDirectoryAreNotFollowed) {
  const auto directory = open(dir_.file("kv"));
  dir_.write("elsewhere", "theirs");
  fs::create_symlink(dir_.file("elsewhere"), dir_.file("kv/link"));
  EXPECT_EQ(directory->open_to_read("link").status().code(), ErrorCode::kUnsafePath);
  EXPECT_EQ(directory->create_new("link").status().code(), ErrorCode::kDuplicate);
  EXPECT_EQ(directory->lock("link").status().code(), ErrorCode::kIo);
  EXPECT_EQ(directory->info("link")->kind, FileKind::kOther);
  EXPECT_EQ(directory->info("absent").status().code(), ErrorCode::kNotFound);
  EXPECT_EQ(directory->open_to_read("absent").status().code(), ErrorCode::kNotFound);
  ASSERT_TRUE(directory->remove("absent").ok());
  ASSERT_TRUE(directory->remove("link").ok());
  EXPECT_EQ(read_whole_file(dir_.file("elsewhere")), "theirs");
  fs::create_directory(dir_.file("kv/below"));
  EXPECT_EQ(directory->remove("below").code(), ErrorCode::kIo);
  EXPECT_EQ(directory->open_to_read("below").status().code(), ErrorCode::kNotRegularFile);
  const Result<std::unique_ptr<FileLock>> lock = directory->lock("lock");
  ASSERT_TRUE(lock.ok());
  EXPECT_EQ(directory->lock("lock").status().code(), ErrorCode::kBusy);
}

}  // namespace
}  // namespace ibid
