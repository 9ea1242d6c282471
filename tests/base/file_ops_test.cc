#include "base/file_ops.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <string>
#include <utility>

#include "tests/support/faulty_file_ops.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(FileOps, FilesAreWrittenReadListedAndRemoved) {
  const TempDir dir;
  FileOps& files = system_file_ops();
  ASSERT_TRUE(files.make_directory(dir.file("a/b")).ok());
  ASSERT_TRUE(files.make_directory(dir.file("a/b")).ok());
  {
    Result<std::unique_ptr<File>> file = files.create(dir.file("a/b/y"));
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->write(bytes_of("hello ")).ok());
    ASSERT_TRUE((*file)->write(bytes_of("world")).ok());
    ASSERT_TRUE((*file)->sync().ok());
    EXPECT_EQ(*(*file)->size(), 11u);
  }
  ASSERT_TRUE(write_file_atomically(files, dir.file("a/b/x"), bytes_of("")).ok());
  EXPECT_EQ(*files.list(dir.file("a/b")), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(*read_file(files, dir.file("a/b/y"), 11), "hello world");
  EXPECT_EQ(read_file(files, dir.file("a/b/y"), 10).status().code(), ErrorCode::kLimitExceeded);

  Result<std::unique_ptr<File>> file = files.open_to_read(dir.file("a/b/y"));
  ASSERT_TRUE(file.ok());
  std::string part(4, '?');
  EXPECT_EQ(*(*file)->read_at(6, std::as_writable_bytes(std::span(part))), 4u);
  EXPECT_EQ(part, "worl");
  EXPECT_EQ(*(*file)->read_at(9, std::as_writable_bytes(std::span(part))), 2u);
  EXPECT_EQ(*(*file)->read_at(11, std::as_writable_bytes(std::span(part))), 0u);

  ASSERT_TRUE(files.remove(dir.file("a/b/y")).ok());
  ASSERT_TRUE(files.remove(dir.file("a/b/y")).ok());
  EXPECT_EQ(files.open_to_read(dir.file("a/b/y")).status().code(), ErrorCode::kNotFound);
}

TEST(FileOps, FailedCallsReturnTheDocumentedErrorCodes) {
  const TempDir dir;
  FileOps& files = system_file_ops();
  EXPECT_EQ(files.open_to_read(dir.path()).status().code(), ErrorCode::kNotRegularFile);
  ASSERT_EQ(::mkfifo(dir.file("fifo").c_str(), 0600), 0);
  EXPECT_EQ(files.open_to_read(dir.file("fifo")).status().code(), ErrorCode::kNotRegularFile);
  EXPECT_EQ(files.create(dir.file("absent/f")).status().code(), ErrorCode::kIo);
  EXPECT_EQ(files.list(dir.file("absent")).status().code(), ErrorCode::kIo);
  EXPECT_EQ(files.rename(dir.file("absent"), dir.file("f")).code(), ErrorCode::kIo);
  EXPECT_EQ(files.sync_directory(dir.file("absent")).code(), ErrorCode::kIo);
  EXPECT_EQ(files.make_directory(dir.write("file", "x") + "/d").code(), ErrorCode::kIo);
  std::filesystem::create_symlink(dir.file("file"), dir.file("planted"));
  EXPECT_EQ(files.create(dir.file("planted")).status().code(), ErrorCode::kIo);
  EXPECT_EQ(read_whole_file(dir.file("file")), "x");
}

TEST(FileOps, NewFilesArePrivate) {
  const TempDir dir;
  ASSERT_TRUE(write_file_atomically(system_file_ops(), dir.file("f"), bytes_of("secret")).ok());
  struct stat info {};
  ASSERT_EQ(::stat(dir.file("f").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
}

TEST(FileOps, CreateNewRefusesExistingNames) {
  const TempDir dir;
  FileOps& files = system_file_ops();
  EXPECT_EQ(files.create_new(dir.write("f", "old")).status().code(), ErrorCode::kDuplicate);
  std::filesystem::create_symlink(dir.file("absent"), dir.file("planted"));
  EXPECT_EQ(files.create_new(dir.file("planted")).status().code(), ErrorCode::kDuplicate);
  EXPECT_FALSE(std::filesystem::exists(dir.file("absent")));
  Result<std::unique_ptr<File>> file = files.create_new(dir.file("new"));
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->write(bytes_of("bytes")).ok());
  EXPECT_TRUE((*file)->close().ok());
  EXPECT_EQ(read_whole_file(dir.file("new")), "bytes");
  EXPECT_EQ(read_whole_file(dir.file("f")), "old");
}

TEST(FileOps, InfoDoesNotFollowSymlinks) {
  const TempDir dir;
  FileOps& files = system_file_ops();
  dir.write("f", "12345");
  std::filesystem::create_symlink(dir.file("f"), dir.file("link"));
  const Result<FileInfo> info = files.info(dir.file("f"));
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->kind, FileKind::kRegular);
  EXPECT_EQ(info->size, 5u);
  EXPECT_EQ(files.info(dir.file("link"))->kind, FileKind::kOther);
  EXPECT_EQ(files.info(dir.path())->kind, FileKind::kDirectory);
  EXPECT_EQ(files.info(dir.file("absent")).status().code(), ErrorCode::kNotFound);
  EXPECT_TRUE(files.open_to_read(dir.file("link")).ok());
}

TEST(FileOps, FileLocksAreExclusive) {
  const TempDir dir;
  FileOps& files = system_file_ops();
  Result<std::unique_ptr<FileLock>> first = files.lock(dir.file("lock"));
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(files.lock(dir.file("lock")).status().code(), ErrorCode::kBusy);
  EXPECT_EQ(files.lock(dir.file("absent/lock")).status().code(), ErrorCode::kIo);
  first->reset();
  EXPECT_TRUE(files.lock(dir.file("lock")).ok());
}

TEST(FileOps, NewDirectoriesArePrivate) {
  const TempDir dir;
  ASSERT_TRUE(system_file_ops().make_directory(dir.file("a/b")).ok());
  struct stat info {};
  ASSERT_EQ(::stat(dir.file("a/b").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0700u);
}

// Whichever call fails, the file has its old or its new content, and no temporary file remains.
TEST(WriteFileAtomically, FailureOfAnyCallLeavesOldOrNewContent) {
  FaultyFileOps counted;
  {
    const TempDir dir;
    ASSERT_TRUE(write_file_atomically(counted, dir.file("f"), bytes_of("new content")).ok());
  }
  ASSERT_EQ(counted.calls(), 6);  // create, write, sync, close, rename, sync the directory
  for (const bool crash : {false, true}) {
    for (int call = 0; call < counted.calls(); ++call) {
      const TempDir dir;
      dir.write("f", "old content");
      FaultyFileOps faulty;
      crash ? faulty.crash_at_call(call) : faulty.fail_call(call);
      EXPECT_EQ(write_file_atomically(faulty, dir.file("f"), bytes_of("new content")).code(), ErrorCode::kIo);
      const bool renamed = call == 5;
      EXPECT_EQ(read_whole_file(dir.file("f")), renamed ? "new content" : "old content") << call;
      if (!crash) {
        EXPECT_EQ(system_file_ops().list(dir.path())->size(), 1u) << call;
      }
      // After a crash the next attempt succeeds. One temporary file of the crash may remain, but no second one.
      const std::vector<std::string> left = *system_file_ops().list(dir.path());
      EXPECT_LE(left.size(), crash ? 2u : 1u);
      EXPECT_TRUE(write_file_atomically(system_file_ops(), dir.file("f"), bytes_of("third")).ok());
      EXPECT_EQ(*system_file_ops().list(dir.path()), left);
    }
  }
}

// Simulates a concurrent writer: calls `before_rename` before the first rename.
class Interrupted : public FaultyFileOps {
 public:
  explicit Interrupted(std::function<void()> before_rename) : before_rename_(std::move(before_rename)) {}
  Status rename(const std::string& from, const std::string& to) override {
    if (auto first = std::exchange(before_rename_, nullptr)) first();
    return FaultyFileOps::rename(from, to);
  }

 private:
  std::function<void()> before_rename_;
};

TEST(WriteFileAtomically, ConcurrentWritersBothSucceed) {
  const TempDir dir;
  const std::string path = dir.file("f");
  Interrupted files([&] { EXPECT_TRUE(write_file_atomically(system_file_ops(), path, bytes_of("the other")).ok()); });
  EXPECT_TRUE(write_file_atomically(files, path, bytes_of("the last")).ok());
  EXPECT_EQ(read_whole_file(path), "the last");
  EXPECT_EQ(*system_file_ops().list(dir.path()), (std::vector<std::string>{"f"}));
}

TEST(WriteFileAtomically, OnlyRegularFilesAreReplaced) {
  const TempDir dir;
  FileOps& files = system_file_ops();
  ASSERT_EQ(::mkfifo(dir.file("fifo").c_str(), 0600), 0);
  ASSERT_TRUE(files.make_directory(dir.file("directory")).ok());
  std::filesystem::create_symlink("/dev/null", dir.file("device"));
  std::filesystem::create_symlink("/proc/self/fd/1", dir.file("stdout"));
  for (const char* name : {"fifo", "directory", "device", "stdout"}) {
    const Status status = write_file_atomically(files, dir.file(name), bytes_of("x"));
    EXPECT_EQ(status.code(), ErrorCode::kNotRegularFile) << name;
    EXPECT_TRUE(status.message().starts_with(dir.file(name) + ": ")) << status.message();
  }
  EXPECT_EQ(*files.list(dir.path()), (std::vector<std::string>{"device", "directory", "fifo", "stdout"}));
  dir.write("f", "old");
  std::filesystem::create_symlink(dir.file("f"), dir.file("link"));
  EXPECT_TRUE(write_file_atomically(files, dir.file("link"), bytes_of("new")).ok());
  EXPECT_EQ(read_whole_file(dir.file("link")), "new");
}

TEST(WriteFileAtomically, ReplacedFilesBecomePrivate) {
  const TempDir dir;
  const std::string path = dir.write("f", "old");
  dir.write("f.tmp", "somebody else's");
  for (const char* name : {"f", "f.tmp"}) ASSERT_EQ(::chmod(dir.file(name).c_str(), 0666), 0);
  ASSERT_TRUE(write_file_atomically(system_file_ops(), path, bytes_of("secret")).ok());
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
  EXPECT_EQ(read_whole_file(dir.file("f.tmp")), "somebody else's");
}

}  // namespace
}  // namespace ibid
