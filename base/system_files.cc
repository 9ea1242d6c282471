#include "base/system_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace ibid {

namespace {

// read and write take at most 0x7ffff000 bytes a call on Linux; anything below works everywhere.
constexpr size_t kMaxCallBytes = size_t{1} << 30;

// A file may have a time that nanoseconds in 64 bits cannot say.
constexpr int64_t kMaxSeconds = 9'000'000'000;

// Made before the file is opened: without memory for it nothing is opened, and no file is made.
class SystemFile : public File {
 public:
  explicit SystemFile(std::string path) : path_(std::move(path)) {}
  SystemFile(const SystemFile&) = delete;
  SystemFile& operator=(const SystemFile&) = delete;
  ~SystemFile() override {
    if (fd_ >= 0) ::close(fd_);
  }

  // Owns `fd` from now on. REQUIRES: called once.
  void hold(int fd) { fd_ = fd; }

  Result<size_t> read_at(uint64_t offset, std::span<std::byte> out) override {
    size_t done = 0;
    while (done < out.size()) {
      const size_t want = std::min(out.size() - done, kMaxCallBytes);
      const ssize_t n = ::pread(fd_, out.data() + done, want, static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errno_status(errno, path_, "read");
      if (n == 0) break;
      done += static_cast<size_t>(n);
    }
    return done;
  }

  Status write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_, bytes.data(), std::min(bytes.size(), kMaxCallBytes));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errno_status(errno, path_, "write");
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return {};
  }

  Status sync() override {
    // Sizes are data to fdatasync; times are not, and nobody needs them after a crash.
    if (::fdatasync(fd_) != 0) return errno_status(errno, path_, "sync");
    return {};
  }

  Status close() override {
    // Linux has given the descriptor back whatever close() says, so it is not called twice.
    if (::close(std::exchange(fd_, -1)) != 0) return errno_status(errno, path_, "close");
    return {};
  }

  Result<uint64_t> size() override {
    struct stat info {};
    if (::fstat(fd_, &info) != 0) return errno_status(errno, path_, "stat");
    return static_cast<uint64_t>(info.st_size);
  }

 private:
  int fd_ = -1;
  const std::string path_;
};

class SystemFileLock : public FileLock {
 public:
  SystemFileLock() = default;
  SystemFileLock(const SystemFileLock&) = delete;
  SystemFileLock& operator=(const SystemFileLock&) = delete;
  ~SystemFileLock() override {
    if (fd_ >= 0) ::close(fd_);
  }
  // Owns `fd` from now on. REQUIRES: called once.
  void hold(int fd) { fd_ = fd; }

 private:
  int fd_ = -1;
};

// O_NOFOLLOW: a link planted in the directory must not redirect what is written.
int open_to_write(const NameAt& at, int more_flags) {
  return ::openat(at.directory, at.name.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | more_flags,
                  S_IRUSR | S_IWUSR);
}

}  // namespace

Result<std::unique_ptr<File>> open_regular(const NameAt& at, Links links) {
  auto file = std::make_unique<SystemFile>(at.path);
  const bool follow = links == Links::kFollow;
  const int fd = ::openat(at.directory, at.name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW));
  if (fd < 0 && errno == ENOENT) return Status(ErrorCode::kNotFound, at.path + ": there is no such file");
  if (fd < 0 && errno == ELOOP && !follow) {
    return Status(ErrorCode::kUnsafePath, at.path + ": is a symlink, and symlinks are not followed");
  }
  if (fd < 0) return errno_status(errno, at.path, "open");
  file->hold(fd);
  struct stat info {};
  if (::fstat(fd, &info) != 0) return errno_status(errno, at.path, "stat");
  if (!S_ISREG(info.st_mode)) return Status(ErrorCode::kNotRegularFile, at.path + ": not a regular file");
  return std::unique_ptr<File>(std::move(file));
}

Result<std::unique_ptr<File>> create_file(const NameAt& at, int how) {
  auto file = std::make_unique<SystemFile>(at.path);
  const int fd = open_to_write(at, how);
  if (fd < 0 && errno == EEXIST) return Status(ErrorCode::kDuplicate, at.path + ": is there already");
  if (fd < 0) return errno_status(errno, at.path, "create");
  file->hold(fd);
  return std::unique_ptr<File>(std::move(file));
}

Result<FileInfo> file_info(const NameAt& at) {
  struct stat info {};
  if (::fstatat(at.directory, at.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return Status(ErrorCode::kNotFound, at.path + ": there is no such file");
    return errno_status(errno, at.path, "stat");
  }
  const FileKind kind = S_ISREG(info.st_mode)   ? FileKind::kRegular
                        : S_ISDIR(info.st_mode) ? FileKind::kDirectory
                                                : FileKind::kOther;
  return FileInfo{kind, static_cast<uint64_t>(info.st_size),
                  std::clamp<int64_t>(info.st_mtim.tv_sec, 0, kMaxSeconds) * 1'000'000'000 + info.st_mtim.tv_nsec};
}

Result<std::unique_ptr<FileLock>> lock_file(const NameAt& at) {
  auto held = std::make_unique<SystemFileLock>();
  const int fd = open_to_write(at, 0);
  if (fd < 0) return errno_status(errno, at.path, "open the lock");
  held->hold(fd);
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return Status(ErrorCode::kBusy, at.path + ": another process has the lock");
    return errno_status(errno, at.path, "lock");
  }
  return std::unique_ptr<FileLock>(std::move(held));
}

}  // namespace ibid
