#include "base/file_ops.h"

#include <dirent.h>
#include <fcntl.h>
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

class SystemFile : public File {
 public:
  SystemFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  SystemFile(const SystemFile&) = delete;
  SystemFile& operator=(const SystemFile&) = delete;
  ~SystemFile() override { ::close(fd_); }

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
    if (::fsync(fd_) != 0) return errno_status(errno, path_, "sync");
    return {};
  }

  Result<uint64_t> size() override {
    struct stat info {};
    if (::fstat(fd_, &info) != 0) return errno_status(errno, path_, "stat");
    return static_cast<uint64_t>(info.st_size);
  }

 private:
  const int fd_;
  const std::string path_;
};

class SystemFileOps : public FileOps {
 public:
  Result<std::unique_ptr<File>> open_to_read(const std::string& path) override {
    const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) return Status(ErrorCode::kNotFound, path + ": there is no such file");
    if (fd < 0) return errno_status(errno, path, "open");
    std::unique_ptr<File> file = std::make_unique<SystemFile>(fd, path);
    struct stat info {};
    if (::fstat(fd, &info) != 0) return errno_status(errno, path, "stat");
    if (!S_ISREG(info.st_mode)) return Status(ErrorCode::kNotRegularFile, path + ": not a regular file");
    return file;
  }

  Result<std::unique_ptr<File>> create(const std::string& path) override {
    // O_NOFOLLOW: a link planted in the directory must not redirect what is written.
    const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    const int fd = ::open(path.c_str(), flags, S_IRUSR | S_IWUSR);
    if (fd < 0) return errno_status(errno, path, "create");
    return std::unique_ptr<File>(std::make_unique<SystemFile>(fd, path));
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
    std::filesystem::create_directories(path, error);
    if (error) return errno_status(error.value(), path, "make the directory");
    return {};
  }

  Status sync_directory(const std::string& path) override {
    const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return errno_status(errno, path, "open the directory");
    const SystemFile directory(fd, path);
    if (::fsync(fd) != 0) return errno_status(errno, path, "sync the directory");
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
