// Writes to a file descriptor, for files that are not opened through FileOps (base/file_ops.h).
#pragma once

#include <unistd.h>

#include <cerrno>
#include <string_view>

namespace ibid {

// Writes all bytes, again if a signal interrupts the write. Returns false on failure, with errno set. The descriptor
// must wait for room (no O_NONBLOCK). Async-signal-safe.
inline bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = EIO;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

}  // namespace ibid
