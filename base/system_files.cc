#include "base/system_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string_view>
#include <utility>

namespace ibid {

namespace {

// Maximum bytes of one read or write call. Linux allows 0x7ffff000; less works on every system.
constexpr size_t kMaxCallBytes = size_t{1} << 30;

// Limit for modification times: a file system may return a time that does not fit into 64 bits of nanoseconds.
constexpr int64_t kMaxSeconds = 9'000'000'000;

// Construct this before opening the file, so that no file is opened or created if memory is exhausted.
class SystemFile : public File {
 public:
  explicit SystemFile(std::string path) : path_(std::move(path)) {}
  SystemFile(const SystemFile&) = delete;
  SystemFile& operator=(const SystemFile&) = delete;
  ~SystemFile() override {
    if (fd_ >= 0) ::close(fd_);
  }

  // Takes ownership of `fd`. REQUIRES: called once.
  void own(int fd) { fd_ = fd; }

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
    // fdatasync writes the data and the size, but not the times, which are not needed after a crash.
    if (::fdatasync(fd_) != 0) return errno_status(errno, path_, "sync");
    return {};
  }

  Status close() override {
    // On Linux close() frees the descriptor even if it fails, so it is not called twice.
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
  // Takes ownership of `fd`. REQUIRES: called once.
  void own(int fd) { fd_ = fd; }

 private:
  int fd_ = -1;
};

// Opens a file for writing. O_NOFOLLOW: a symlink planted in the directory must not redirect the write.
int open_to_write(const NameAt& at, int more_flags) {
  return ::openat(at.directory, at.name.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | more_flags,
                  S_IRUSR | S_IWUSR);
}

}  // namespace

Result<std::unique_ptr<File>> open_regular(const NameAt& at, Links links) {
  auto file = std::make_unique<SystemFile>(at.path);
  const bool follow = links == Links::kFollow;
  const int fd = ::openat(at.directory, at.name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW));
  if (fd < 0 && errno == ENOENT) return Status(ErrorCode::kNotFound, at.path + ": does not exist");
  if (fd < 0 && errno == ELOOP && !follow) {
    return Status(ErrorCode::kUnsafePath, at.path + ": is a symlink, and symlinks are not followed");
  }
  if (fd < 0) return errno_status(errno, at.path, "open");
  file->own(fd);
  struct stat info {};
  if (::fstat(fd, &info) != 0) return errno_status(errno, at.path, "stat");
  if (!S_ISREG(info.st_mode)) return Status(ErrorCode::kNotRegularFile, at.path + ": not a regular file");
  return std::unique_ptr<File>(std::move(file));
}

Result<std::unique_ptr<File>> create_file(const NameAt& at, int how) {
  auto file = std::make_unique<SystemFile>(at.path);
  const int fd = open_to_write(at, how);
  if (fd < 0 && errno == EEXIST) return Status(ErrorCode::kDuplicate, at.path + ": already exists");
  if (fd < 0) return errno_status(errno, at.path, "create");
  file->own(fd);
  return std::unique_ptr<File>(std::move(file));
}

Result<FileInfo> file_info(const NameAt& at) {
  struct stat info {};
  if (::fstatat(at.directory, at.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return Status(ErrorCode::kNotFound, at.path + ": does not exist");
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
  held->own(fd);
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return Status(ErrorCode::kBusy, at.path + ": another process has the lock");
    return errno_status(errno, at.path, "lock");
  }
  return std::unique_ptr<FileLock>(std::move(held));
}

namespace {

// Returns kUnsafePath unless only the owner of the directory can access it.
Status check_private(int fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return errno_status(errno, path, "stat");
  if (info.st_uid != ::geteuid()) {
    return {ErrorCode::kUnsafePath,
            path + ": belongs to another user (uid " + std::to_string(info.st_uid) + "); name a directory of your own"};
  }
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    char mode[8];
    std::snprintf(mode, sizeof(mode), "%03o", static_cast<unsigned>(info.st_mode & 0777));
    return {ErrorCode::kUnsafePath, path + ": is open to other users (mode " + mode +
                                        "); make it private with chmod 700, or name another directory"};
  }
  return {};
}

class SystemDirectory : public Directory {
 public:
  explicit SystemDirectory(std::string path) : path_(std::move(path)) {}
  SystemDirectory(const SystemDirectory&) = delete;
  SystemDirectory& operator=(const SystemDirectory&) = delete;
  ~SystemDirectory() override {
    if (fd_ >= 0) ::close(fd_);
  }

  // Takes ownership of `fd`. REQUIRES: called once.
  void own(int fd) { fd_ = fd; }

  Result<std::unique_ptr<File>> open_to_read(const std::string& name) override {
    return open_regular(at(name), Links::kRefuse);
  }
  Result<std::unique_ptr<File>> create_new(const std::string& name) override { return create_file(at(name), O_EXCL); }
  Result<std::unique_ptr<Directory>> open_directory(const std::string& name) override {
    return open_private_directory(at(name));
  }
  Result<FileInfo> info(const std::string& name) override { return file_info(at(name)); }
  Result<std::unique_ptr<FileLock>> lock(const std::string& name) override { return lock_file(at(name)); }

  Status set_mtime(const std::string& name, int64_t mtime_ns) override {
    const timespec mtime{mtime_ns / 1'000'000'000, mtime_ns % 1'000'000'000};
    const timespec times[2] = {{0, UTIME_OMIT}, mtime};
    if (::utimensat(fd_, name.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0) {
      return errno_status(errno, at(name).path, "set the time");
    }
    return {};
  }

  Status rename(const std::string& name, Directory& to, const std::string& new_name) override {
    const SystemDirectory& target = static_cast<SystemDirectory&>(to);
    if (::renameat(fd_, name.c_str(), target.fd_, new_name.c_str()) != 0) {
      return errno_status(errno, at(name).path, "rename to " + target.at(new_name).path);
    }
    return {};
  }

  Status remove(const std::string& name) override {
    if (::unlinkat(fd_, name.c_str(), 0) != 0 && errno != ENOENT) return errno_status(errno, at(name).path, "remove");
    return {};
  }

  Status sync() override {
    if (::fsync(fd_) != 0) return errno_status(errno, path_, "sync the directory");
    return {};
  }

  Result<std::vector<std::string>> list() override {
    // Reading a directory moves the offset of its descriptor, so list() opens one of its own.
    const int fd = ::openat(fd_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return errno_status(errno, path_, "list");
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(fd), &::closedir);
    if (stream == nullptr) {
      const int error = errno;
      ::close(fd);
      return errno_status(error, path_, "list");
    }
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(stream.get())) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
      errno = 0;
    }
    if (errno != 0) return errno_status(errno, path_, "list");
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  NameAt at(const std::string& name) const { return {fd_, name, path_ + "/" + name}; }

  int fd_ = -1;
  const std::string path_;
};

}  // namespace

Result<std::unique_ptr<Directory>> open_private_directory(const NameAt& at) {
  auto directory = std::make_unique<SystemDirectory>(at.path);
  if (::mkdirat(at.directory, at.name.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    return errno_status(errno, at.path, "make the directory");
  }
  const int fd = ::openat(at.directory, at.name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) {
    const int error = errno;
    struct stat info {};
    if (::fstatat(at.directory, at.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode)) {
      return Status(ErrorCode::kUnsafePath, at.path + ": is a symlink; name the directory that it points to");
    }
    return errno_status(error, at.path, "open the directory");
  }
  directory->own(fd);
  TRY(check_private(fd, at.path));
  return std::unique_ptr<Directory>(std::move(directory));
}

}  // namespace ibid
