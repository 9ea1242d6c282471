#include "net/unix_listener.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "net/socket_address.h"

namespace ibid::net {

namespace {

// Maximum number of clients that wait to be accepted. The kernel reduces it to net.core.somaxconn.
constexpr int kBacklog = 4096;

// Removes a socket file if the process that made it has ended.
Status remove_stale(const std::string& path, const sockaddr_un& address) {
  struct stat found {};
  if (lstat(path.c_str(), &found) != 0) return {};
  if (!S_ISSOCK(found.st_mode)) {
    return {ErrorCode::kIo, path + " exists and is not a socket; choose another path"};
  }
  const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (probe < 0) return {ErrorCode::kIo, std::string("cannot create a Unix socket: ") + std::strerror(errno)};
  const int connected = connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  const int error = errno;
  close(probe);
  if (connected == 0 || error != ECONNREFUSED) {
    return {ErrorCode::kIo, path + " is in use by another program; choose another path"};
  }
  unlink(path.c_str());
  return {};
}

}  // namespace

SocketFile::SocketFile(std::string path) : path_(std::move(path)) {
  struct stat made {};
  if (lstat(path_.c_str(), &made) != 0) return;
  device_ = made.st_dev;
  inode_ = made.st_ino;
}

SocketFile::SocketFile(SocketFile&& other) noexcept
    : path_(std::exchange(other.path_, std::string())), device_(other.device_), inode_(other.inode_) {}

SocketFile& SocketFile::operator=(SocketFile other) noexcept {
  path_.swap(other.path_);
  std::swap(device_, other.device_);
  std::swap(inode_, other.inode_);
  return *this;
}

SocketFile::~SocketFile() {
  if (path_.empty()) return;
  struct stat found {};
  const bool ours = lstat(path_.c_str(), &found) == 0 && found.st_dev == device_ && found.st_ino == inode_;
  if (ours) unlink(path_.c_str());
}

Result<UnixListener> listen_unix(const std::string& path) {
  TRY_ASSIGN(const sockaddr_un address, unix_address(path));
  TRY(remove_stale(path, address));
  const int opened = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const auto failed = [&] {
    const int error = errno;
    if (opened >= 0) close(opened);
    return Status(ErrorCode::kIo, "cannot listen on the Unix socket " + path + ": " + std::strerror(error));
  };
  if (opened < 0) return failed();
  // Linux creates the file with these permissions. Elsewhere chmod() sets them before listen(), and until listen()
  // every connection is refused.
  if (fchmod(opened, 0600) != 0) return failed();
  if (bind(opened, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return failed();
  SocketFile file(path);
  if (chmod(path.c_str(), 0600) != 0 || ::listen(opened, kBacklog) != 0) return failed();
  return UnixListener{opened, std::move(file)};
}

}  // namespace ibid::net
