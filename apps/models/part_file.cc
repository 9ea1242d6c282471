#include "apps/models/part_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>

#include "base/sha256.h"

namespace ibid {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = ".pull-";
constexpr size_t kNameDigits = 24;
constexpr size_t kDirectoryDigits = 6;  // of mkdtemp
constexpr time_t kAbandonedSeconds = 7 * 24 * 3600;

Status system_error(const std::string& path) { return {ErrorCode::kIo, path + ": " + std::strerror(errno)}; }

// Whether `fd` is still what `path` names: somebody may have removed or renamed it before it was locked.
bool is_at(const std::string& path, int fd) {
  struct stat held {}, named {};
  return fstat(fd, &held) == 0 && lstat(path.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
         held.st_dev == named.st_dev;
}

// Of a file, or of the directory that a package is unpacked in.
bool is_part_name(const std::string& name) {
  const std::string_view digits = std::string_view(name).substr(std::min(kPrefix.size(), name.size()));
  if (!name.starts_with(kPrefix)) return false;
  return digits.size() == kDirectoryDigits ||
         (digits.size() == kNameDigits && digits.find_first_not_of("0123456789abcdef") == std::string_view::npos);
}

// The bytes that were given back, as far as they are known.
uint64_t remove_if_abandoned(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return 0;
  struct stat info {};
  const bool abandoned = flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &info) == 0 &&
                         (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode)) &&
                         time(nullptr) - info.st_mtime > kAbandonedSeconds && is_at(path, fd);
  std::error_code error;
  const bool removed = abandoned && fs::remove_all(path, error) > 0 && !error;
  close(fd);
  return removed && S_ISREG(info.st_mode) ? static_cast<uint64_t>(info.st_size) : 0;
}

}  // namespace

Result<std::unique_ptr<PartFile>> PartFile::open(const std::string& path) {
  for (;;) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0) return system_error(path);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      close(fd);
      return Status(ErrorCode::kBusy, "another process is fetching this file already (" + path + ")");
    }
    if (!is_at(path, fd)) {
      close(fd);
      continue;
    }
    std::unique_ptr<PartFile> part(new PartFile(path, fd));
    struct stat info {};
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return system_error(path);
    part->size_ = static_cast<uint64_t>(info.st_size);
    return part;
  }
}

PartFile::~PartFile() {
  if (size_ == 0) discard();
  close(fd_);
}

bool PartFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(size_));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const bool full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
      status_ = full ? Status(ErrorCode::kIo, path_ + ": " + std::strerror(errno) +
                                                  "; what has come is kept, and the same command goes on from there")
                     : system_error(path_);
      return false;
    }
    size_ += static_cast<uint64_t>(n);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

Status PartFile::restart() {
  size_ = 0;
  return ftruncate(fd_, 0) == 0 ? Status() : system_error(path_);
}

Status PartFile::finish(const std::string& target) {
  if (fsync(fd_) != 0) return system_error(path_);
  return rename(path_.c_str(), target.c_str()) == 0 ? Status() : system_error(target);
}

void PartFile::discard() {
  if (is_at(path_, fd_)) unlink(path_.c_str());
}

std::string part_path(const std::string& directory, std::string_view content) {
  Sha256 hash;
  hash.update(content);
  return directory + "/" + std::string(kPrefix) + to_hex(hash.finish()).substr(0, kNameDigits);
}

uint64_t remove_abandoned_parts(const std::string& directory) {
  uint64_t bytes = 0;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    if (is_part_name(it->path().filename().string())) bytes += remove_if_abandoned(it->path().string());
  }
  return bytes;
}

}  // namespace ibid
