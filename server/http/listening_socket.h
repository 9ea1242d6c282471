// ListeningSocket: a bound TCP address or Unix socket path, on which no client is served yet. It owns its descriptor,
// and the file of a Unix socket, which its destructor removes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "net/unix_listener.h"

namespace ibid::http {

class ListeningSocket {
 public:
  ListeningSocket(ListeningSocket&& other) noexcept;
  ListeningSocket& operator=(ListeningSocket&&) = delete;
  ~ListeningSocket();

  // Opens one socket for each address of the name ("localhost": IPv4 and IPv6). port 0: any free port, the same for all
  // addresses. Errors: kInvalidArgument for an invalid address; kIo if the port is in use or not permitted.
  static Result<std::vector<ListeningSocket>> open_tcp(const std::string& address, uint16_t port);
  // Opens a socket to which only this user can connect. Errors: those of listen_unix().
  static Result<ListeningSocket> open_unix(const std::string& path);

  // True if clients on other machines can reach the socket.
  bool is_reachable_from_outside() const { return is_public_; }
  bool is_local() const { return file_.has_value(); }
  uint16_t port() const { return port_; }
  int release_descriptor();  // the caller owns the descriptor from now on

 private:
  explicit ListeningSocket(int descriptor) : descriptor_(descriptor) {}

  int descriptor_ = -1;
  uint16_t port_ = 0;
  bool is_public_ = false;
  std::optional<net::SocketFile> file_;  // of a Unix socket
};

// Tells whether bytes written to a client have arrived there.
enum class Delivery { kUnderWay, kDone, kLost };
// Reads the counters of a TCP socket. Returns kDone for other sockets, whose bytes go directly to the reader.
Delivery delivery_of(int socket);

}  // namespace ibid::http
