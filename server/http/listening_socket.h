// ListeningSocket: an address or a path that clients connect to, opened and not yet served. It owns its descriptor, and
// the file of a Unix socket, which goes with it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace ibid::http {

class ListeningSocket {
 public:
  ListeningSocket(ListeningSocket&& other) noexcept;
  ListeningSocket& operator=(ListeningSocket&&) = delete;
  ~ListeningSocket();

  // One for each address that the name stands for ("localhost": IPv4 and IPv6). port 0: any free one, the same for all.
  // Errors: kInvalidArgument for what is no address; kIo: in use, not allowed.
  static Result<std::vector<ListeningSocket>> open_tcp(const std::string& address, uint16_t port);
  // With rights for this user alone. A file that a process left behind is replaced; one that a process listens on, or
  // that is no socket, is an error: kIo. kInvalidArgument: the path is too long.
  static Result<ListeningSocket> open_unix(const std::string& path);

  // Whether clients of other machines can reach it.
  bool is_reachable_from_outside() const { return is_public_; }
  bool is_local() const { return !path_.empty(); }
  uint16_t port() const { return port_; }
  int release_descriptor();  // the caller's from now on

 private:
  explicit ListeningSocket(int descriptor) : descriptor_(descriptor) {}

  int descriptor_ = -1;
  uint16_t port_ = 0;
  bool is_public_ = false;
  std::string path_;
  dev_t device_ = 0;  // of the file: another one at this path is not ours
  ino_t inode_ = 0;
};

// The state of bytes that were written to a client.
enum class Delivery { kUnderWay, kDone, kLost };
// Returns that of a TCP socket, from its counters; kDone of other sockets, whose bytes go straight to the reader.
Delivery delivery_of(int socket);

}  // namespace ibid::http
