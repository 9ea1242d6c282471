#include "base/file_ops.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <system_error>
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

Result<std::unique_ptr<File>> open_regular(const std::string& path, int more_flags) {
  auto file = std::make_unique<SystemFile>(path);
  const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | more_flags);
  if (fd < 0 && errno == ENOENT) return Status(ErrorCode::kNotFound, path + ": there is no such file");
  if (fd < 0 && errno == ELOOP && (more_flags & O_NOFOLLOW) != 0) {
    return Status(ErrorCode::kUnsafePath, path + ": is a symlink, and symlinks are not followed");
  }
  if (fd < 0) return errno_status(errno, path, "open");
  file->hold(fd);
  struct stat info {};
  if (::fstat(fd, &info) != 0) return errno_status(errno, path, "stat");
  if (!S_ISREG(info.st_mode)) return Status(ErrorCode::kNotRegularFile, path + ": not a regular file");
  return std::unique_ptr<File>(std::move(file));
}

// O_NOFOLLOW: a link planted in the directory must not redirect what is written.
int open_to_write(const std::string& path, int more_flags) {
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | more_flags, S_IRUSR | S_IWUSR);
}

class SystemFileOps : public FileOps {
 public:
  Result<std::unique_ptr<File>> open_to_read(const std::string& path) override { return open_regular(path, 0); }

  Result<std::unique_ptr<File>> open_to_read_no_follow(const std::string& path) override {
    return open_regular(path, O_NOFOLLOW);
  }

  Result<std::unique_ptr<File>> create(const std::string& path) override {
    auto file = std::make_unique<SystemFile>(path);
    const int fd = open_to_write(path, O_TRUNC);
    if (fd < 0) return errno_status(errno, path, "create");
    file->hold(fd);
    return std::unique_ptr<File>(std::move(file));
  }

  Result<std::unique_ptr<File>> create_new(const std::string& path) override {
    auto file = std::make_unique<SystemFile>(path);
    const int fd = open_to_write(path, O_EXCL);
    if (fd < 0 && errno == EEXIST) return Status(ErrorCode::kDuplicate, path + ": is there already");
    if (fd < 0) return errno_status(errno, path, "create");
    file->hold(fd);
    return std::unique_ptr<File>(std::move(file));
  }

  Result<FileInfo> info(const std::string& path) override {
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0) {
      if (errno == ENOENT) return Status(ErrorCode::kNotFound, path + ": there is no such file");
      return errno_status(errno, path, "stat");
    }
    const FileKind kind = S_ISREG(info.st_mode)   ? FileKind::kRegular
                          : S_ISDIR(info.st_mode) ? FileKind::kDirectory
                                                  : FileKind::kOther;
    return FileInfo{kind, static_cast<uint64_t>(info.st_size),
                    std::clamp<int64_t>(info.st_mtim.tv_sec, 0, kMaxSeconds) * 1'000'000'000 + info.st_mtim.tv_nsec};
  }

  Status set_mtime(const std::string& path, int64_t mtime_ns) override {
    const timespec mtime{mtime_ns / 1'000'000'000, mtime_ns % 1'000'000'000};
    const timespec times[2] = {{0, UTIME_OMIT}, mtime};
    if (::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0) {
      return errno_status(errno, path, "set the time");
    }
    return {};
  }

  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override {
    auto held = std::make_unique<SystemFileLock>();
    const int fd = open_to_write(path, 0);
    if (fd < 0) return errno_status(errno, path, "open the lock");
    held->hold(fd);
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return Status(ErrorCode::kBusy, path + ": another process has the lock");
      return errno_status(errno, path, "lock");
    }
    return std::unique_ptr<FileLock>(std::move(held));
  }

  Status rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) return errno_status(errno, from, "rename to " + to);
    return {};
  }

  Status remove(const std::string& path) override {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) return errno_status(errno, path, "remove");
    return {};
  }

  Status make_directory(const std::string& path) override {
    std::error_code error;
    const std::filesystem::path parent = std::filesystem::path(path).parent_path();
    if (!parent.empty()) std::filesystem::create_directories(parent, error);
    if (error) return errno_status(error.value(), path, "make the directory");
    if (::mkdir(path.c_str(), S_IRWXU) == 0) return {};
    if (errno != EEXIST) return errno_status(errno, path, "make the directory");
    if (!std::filesystem::is_directory(path, error)) return errno_status(ENOTDIR, path, "make the directory");
    return {};
  }

  Status sync_directory(const std::string& path) override {
    const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return errno_status(errno, path, "open the directory");
    const int error = ::fsync(fd) != 0 ? errno : 0;
    ::close(fd);
    if (error != 0) return errno_status(error, path, "sync the directory");
    return {};
  }

  Result<std::vector<std::string>> list(const std::string& path) override {
    std::error_code error;
    std::vector<std::string> names;
    std::filesystem::directory_iterator entry(path, error);
    for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
      names.push_back(entry->path().filename().string());
    }
    if (error) return errno_status(error.value(), path, "list");
    std::sort(names.begin(), names.end());
    return names;
  }
};

Status write_and_sync(FileOps& files, const std::string& path, std::span<const std::byte> bytes) {
  TRY_ASSIGN(const std::unique_ptr<File> file, files.create(path));
  TRY(file->write(bytes));
  return file->sync();
}

}  // namespace

Status errno_status(int error_number, std::string_view path, std::string_view action) {
  return {ErrorCode::kIo, std::string(path) + ": cannot " + std::string(action) + ": " +
                              std::generic_category().message(error_number)};
}

FileOps& system_file_ops() {
  static SystemFileOps files;
  return files;
}

Status write_file_atomically(FileOps& files, const std::string& path, std::span<const std::byte> bytes) {
  const std::string temporary = path + ".tmp";
  Status status = write_and_sync(files, temporary, bytes);
  if (status.ok()) status = files.rename(temporary, path);
  if (!status.ok()) {
    // Whether or not this works, the error to report is the first one.
    static_cast<void>(files.remove(temporary));
    return status;
  }
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return files.sync_directory(parent.empty() ? "." : parent);
}

Result<std::string> read_file(FileOps& files, const std::string& path, uint64_t max_bytes) {
  TRY_ASSIGN(const std::unique_ptr<File> file, files.open_to_read(path));
  TRY_ASSIGN(const uint64_t size, file->size());
  if (size > max_bytes) {
    return Status(ErrorCode::kLimitExceeded, path + ": " + std::to_string(size) + " bytes, at most " +
                                                 std::to_string(max_bytes) + " are allowed");
  }
  std::string text(static_cast<size_t>(size), '\0');
  TRY_ASSIGN(const size_t n, file->read_at(0, std::as_writable_bytes(std::span(text))));
  text.resize(n);
  return text;
}

}  // namespace ibid
