// Directory of the real file system.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string_view>
#include <utility>

#include "base/system_files.h"

namespace ibid {

namespace {

// Nobody but its owner may enter, list or change it.
Status check_private(int fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return errno_status(errno, path, "stat");
  if (info.st_uid != ::geteuid()) {
    return {ErrorCode::kUnsafePath, path + ": belongs to another user (number " + std::to_string(info.st_uid) +
                                        "); name a directory of your own"};
  }
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    char mode[8];
    std::snprintf(mode, sizeof(mode), "%03o", static_cast<unsigned>(info.st_mode & 0777));
    return {ErrorCode::kUnsafePath, path + ": is open to other users (mode " + mode +
                                        "); make it yours alone with chmod 700, or name another directory"};
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

  // Owns `fd` from now on. REQUIRES: called once.
  void hold(int fd) { fd_ = fd; }

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
    // A descriptor of its own: reading moves it.
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
      return Status(ErrorCode::kUnsafePath, at.path + ": is a symlink; name the directory that it leads to");
    }
    return errno_status(error, at.path, "open the directory");
  }
  directory->hold(fd);
  TRY(check_private(fd, at.path));
  return std::unique_ptr<Directory>(std::move(directory));
}

}  // namespace ibid
