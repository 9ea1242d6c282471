#include "base/mapped_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/memory_marks.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

ErrorCode open_code(const std::string& path) { return MappedFile::open(path).status().code(); }

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST(MappedFile, MapsTheWholeFile) {
  const TempDir dir;
  std::string content(100'000, 'x');
  content.front() = '<';
  content.back() = '>';
  Result<MappedFile> file = MappedFile::open(dir.write("f", content));
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ(text_of(*file), content);
  EXPECT_EQ(file->path(), dir.file("f"));
  EXPECT_TRUE(file->check_unchanged().ok());
}

// Returns the resident kilobytes of the mapping that starts at `data`.
long resident_kb(const std::byte* data) {
  std::ifstream maps("/proc/self/smaps");
  std::ostringstream start;
  start << std::hex << reinterpret_cast<uintptr_t>(data) << '-';
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.rfind(start.str(), 0) == 0) here = true;
    if (here && line.rfind("Rss:", 0) == 0) return std::strtol(line.c_str() + 4, nullptr, 10);
  }
  return -1;
}

TEST(MappedFile, ReleasedBytesAreFreedAndReadAgain) {
  const TempDir dir;
  std::string content(1 << 20, 'x');
  for (size_t i = 0; i < content.size(); i += 97) content[i] = static_cast<char>(i);
  Result<MappedFile> file = MappedFile::open(dir.write("f", content));
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ(text_of(*file), content);
  const long before = resident_kb(file->bytes().data());
  file->release(file->bytes().subspan(1000, 900'000));
  EXPECT_LE(resident_kb(file->bytes().data()), before - 800);
  EXPECT_EQ(text_of(*file), content);
}

TEST(MappedFile, ReleaseDoesNotChangeMemoryOutsideTheMapping) {
  const TempDir dir;
  Result<MappedFile> file = MappedFile::open(dir.write("f", std::string(100, 'x')));
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  std::vector<std::byte> other(1 << 16, std::byte{7});
  file->release(other);
  EXPECT_EQ(std::count(other.begin(), other.end(), std::byte{7}), 1 << 16);
}

#ifdef IBID_MARKS_MEMORY

TEST(MappedFileDeathTest, ReadsBeyondTheFileAreReported) {
  const TempDir dir;
  for (const size_t size : {1u, 13u, 4095u, 4097u}) {
    const Result<MappedFile> file = MappedFile::open(dir.write("f", std::string(size, 'x')));
    ASSERT_TRUE(file.ok());
    volatile const std::byte* bytes = file->bytes().data();
    EXPECT_TRUE(bytes[size - 1] == std::byte{'x'});
    EXPECT_DEATH((void)bytes[size], "AddressSanitizer") << size;
  }
}

#endif

TEST(MappedFile, MoveTransfersTheMapping) {
  const TempDir dir;
  Result<MappedFile> a = MappedFile::open(dir.write("a", "aaaa"));
  Result<MappedFile> b = MappedFile::open(dir.write("b", "bb"));
  ASSERT_TRUE(a.ok() && b.ok());
  MappedFile moved = std::move(*a);
  EXPECT_EQ(text_of(moved), "aaaa");
  moved = std::move(*b);
  EXPECT_EQ(text_of(moved), "bb");
  EXPECT_TRUE(moved.check_unchanged().ok());
}

TEST(MappedFile, OpensPlainNamesInADirectory) {
  const TempDir dir;
  dir.write("f", "content");
  const Result<MappedFile> file = MappedFile::open_in(dir.path(), "f");
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ(text_of(*file), "content");
  EXPECT_EQ(file->path(), dir.file("f"));
  EXPECT_EQ(MappedFile::open_in(dir.path(), "g").status().code(), ErrorCode::kNotFound);
  EXPECT_EQ(MappedFile::open_in(dir.path() + "/none", "f").status().code(), ErrorCode::kIo);
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string("../f"), std::string("/etc/passwd"),
        std::string("a/b"), std::string("f\0", 2), std::string(300, 'x')}) {
    EXPECT_EQ(MappedFile::open_in(dir.path(), name).status().code(), ErrorCode::kUnsafePath) << name;
  }
}

TEST(MappedFile, FollowsSymlinksOnlyWhenAllowed) {
  const TempDir dir;
  dir.write("target", "x");
  std::filesystem::create_symlink("target", dir.file("link"));
  EXPECT_TRUE(MappedFile::open_in(dir.path(), "link").ok());
  EXPECT_EQ(MappedFile::open_in(dir.path(), "link", false).status().code(), ErrorCode::kUnsafePath);
  EXPECT_TRUE(MappedFile::open_in(dir.path(), "target", false).ok());
}

TEST(MappedFile, OpensOnlyRegularFiles) {
  const TempDir dir;
  EXPECT_EQ(open_code(dir.path()), ErrorCode::kNotRegularFile);
  EXPECT_EQ(open_code("/dev/zero"), ErrorCode::kNotRegularFile);
  // The FIFO has no writer: a blocking open would hang here.
  ASSERT_EQ(::mkfifo(dir.file("fifo").c_str(), 0600), 0);
  EXPECT_EQ(open_code(dir.file("fifo")), ErrorCode::kNotRegularFile);
  // Symlinks to regular files are accepted.
  dir.write("target", "x");
  std::filesystem::create_symlink("target", dir.file("link"));
  EXPECT_EQ(open_code(dir.file("link")), ErrorCode::kOk);
}

TEST(MappedFile, SystemErrorsKeepTheTextOfTheSystem) {
  const TempDir dir;
  std::filesystem::create_symlink("nowhere", dir.file("dangling"));
  for (const char* name : {"dangling", "absent", "absent/file"}) {
    const Result<MappedFile> file = MappedFile::open(dir.file(name));
    EXPECT_EQ(file.status().code(), ErrorCode::kIo);
    EXPECT_EQ(file.status().message(), dir.file(name) + ": cannot open: No such file or directory");
  }
}

// Runs in a child process: root can read every file, so the child switches to another user.
TEST(MappedFileDeathTest, UnreadableFileReportsPermissionDenied) {
  const TempDir dir;
  const std::string locked = dir.write("locked", "x");
  ASSERT_EQ(::chmod(locked.c_str(), 0), 0);
  ASSERT_EQ(::chmod(dir.path().c_str(), 0755), 0);
  const auto open_as_nobody = [&locked] {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && ::setuid(kNobody) != 0) std::exit(2);
    const Result<MappedFile> file = MappedFile::open(locked);
    std::fprintf(stderr, "%s", file.status().to_string().c_str());
    std::exit(file.ok() ? 1 : 0);
  };
  EXPECT_EXIT(open_as_nobody(), testing::ExitedWithCode(0), "Io: .*locked: cannot open: Permission denied");
}

TEST(MappedFile, EmptyFileReportsTruncated) {
  const TempDir dir;
  EXPECT_EQ(open_code(dir.write("empty", "")), ErrorCode::kTruncated);
}

TEST(MappedFile, DetectsTruncationAndModification) {
  const TempDir dir;
  const std::string path = dir.write("f", "0123456789");
  const Result<MappedFile> file = MappedFile::open(path);
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(::truncate(path.c_str(), 4), 0);
  EXPECT_EQ(file->check_unchanged().code(), ErrorCode::kChangedOnDisk);

  const std::string same_size = dir.write("g", "0123456789");
  const Result<MappedFile> other = MappedFile::open(same_size);
  ASSERT_TRUE(other.ok());
  EXPECT_TRUE(other->check_unchanged().ok());
  timespec times[2] = {{.tv_sec = 1, .tv_nsec = 0}, {.tv_sec = 1, .tv_nsec = 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, same_size.c_str(), times, 0), 0);
  EXPECT_EQ(other->check_unchanged().code(), ErrorCode::kChangedOnDisk);
}

TEST(MappedFile, TruncatedPartReadsAsZeros) {
  const TempDir dir;
  const std::string path = dir.write("f", std::string(100'000, 'x'));
  const Result<MappedFile> file = MappedFile::open(path);
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(::truncate(path.c_str(), 10), 0);
  EXPECT_EQ(text_of(*file), std::string(10, 'x') + std::string(100'000 - 10, '\0'));
  const Status status = file->check_unchanged();
  EXPECT_EQ(status.code(), ErrorCode::kChangedOnDisk);
  EXPECT_EQ(status.message(), path + ": had 100000 bytes when it was opened, now has 10");
}

TEST(MappedFile, MappingKeepsTheOldBytesAfterARename) {
  const TempDir dir;
  const std::string path = dir.write("f", "old");
  const Result<MappedFile> file = MappedFile::open(path);
  ASSERT_TRUE(file.ok());
  std::filesystem::rename(dir.write("g", "new content"), path);
  EXPECT_EQ(text_of(*file), "old");
  EXPECT_TRUE(file->check_unchanged().ok());
}

}  // namespace
}  // namespace ibid
