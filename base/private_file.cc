#include "base/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/file_ops.h"

namespace ibid {

namespace {

struct Descriptor {
  explicit Descriptor(int opened) : number(opened) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
  const int number;
};

}  // namespace

Result<std::string> read_private_file(const std::string& path, size_t max_bytes) {
  // O_NONBLOCK: a FIFO does not block.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.number < 0 && errno == ENOENT) return {ErrorCode::kNotFound, path + ": no such file"};
  if (file.number < 0) return errno_status(errno, path, "open");
  struct stat info {};
  if (::fstat(file.number, &info) != 0) return errno_status(errno, path, "stat");
  if (!S_ISREG(info.st_mode)) return {ErrorCode::kNotRegularFile, path + ": is not a regular file"};
  if (info.st_uid != ::geteuid() && info.st_uid != 0) {
    return {ErrorCode::kUnsafePath, path + ": belongs to another user; make a copy of your own"};
  }
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return {ErrorCode::kUnsafePath, path + ": is open to other users; chmod 600 closes it"};
  }
  std::string text(max_bytes + 1, '\0');
  size_t n_bytes = 0;
  while (n_bytes < text.size()) {
    const ssize_t n = ::read(file.number, text.data() + n_bytes, text.size() - n_bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_status(errno, path, "read");
    if (n == 0) break;
    n_bytes += static_cast<size_t>(n);
  }
  if (n_bytes > max_bytes) {
    return {ErrorCode::kLimitExceeded, path + ": has more than " + std::to_string(max_bytes) + " bytes"};
  }
  text.resize(n_bytes);
  return text;
}

}  // namespace ibid
