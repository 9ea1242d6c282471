// Unix sockets on which this process listens, and to which only this user can connect.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.h"

namespace ibid::net {

// The file of a listening socket. The destructor removes it, unless another file has replaced it.
class SocketFile {
 public:
  // REQUIRES: the file exists.
  explicit SocketFile(std::string path);
  SocketFile(SocketFile&& other) noexcept;
  SocketFile& operator=(SocketFile other) noexcept;
  ~SocketFile();

 private:
  std::string path_;  // empty: moved from
  dev_t device_ = 0;  // identity of the file, to recognise that another file has replaced it
  ino_t inode_ = 0;
};

struct UnixListener {
  int descriptor = -1;  // non-blocking; the caller owns it
  SocketFile file;
};

// Creates the file and listens on it. Replaces a socket file that an ended process left. At no time can another user
// connect, whatever the umask. Errors: kIo if a process listens on the path, or it is another kind of file, or the file
// cannot be created; kInvalidArgument if the path is too long.
Result<UnixListener> listen_unix(const std::string& path);

}  // namespace ibid::net
