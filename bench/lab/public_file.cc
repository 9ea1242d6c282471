#include "bench/lab/public_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/file_ops.h"

namespace ibid {

namespace {

constexpr mode_t kEverybody = 0666;  // less what the umask takes

// 0, or the errno of the call that failed.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

}  // namespace

Status write_public_file(const std::string& path, std::string_view text) {
  // Beside the file, so that rename() replaces it; named after the process, so that two runs do not meet.
  const std::string temporary = path + "." + std::to_string(::getpid()) + ".tmp";
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kEverybody);
  if (fd < 0) return errno_status(errno, path, "create");
  int error = write_all(fd, text);
  struct stat old {};
  if (error == 0 && ::stat(path.c_str(), &old) == 0 && ::fchmod(fd, old.st_mode & 07777) != 0) error = errno;
  if (::close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return {};
  ::unlink(temporary.c_str());
  return errno_status(error, path, "write");
}

Status give_public_rights(const std::string& temporary, const std::string& path) {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  struct stat old {};
  const mode_t rights = ::stat(path.c_str(), &old) == 0 ? old.st_mode & 07777 : kEverybody & ~mask;
  return ::chmod(temporary.c_str(), rights) == 0 ? Status() : errno_status(errno, temporary, "chmod");
}

}  // namespace ibid
