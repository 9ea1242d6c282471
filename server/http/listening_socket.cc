#include "server/http/listening_socket.h"

#include <arpa/inet.h>
// Include linux/tcp.h in place of netinet/tcp.h, which Boost includes: only its tcp_info has byte counters.
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include "net/socket_address.h"

namespace ibid::http {

namespace {

// Maximum number of clients that wait to be accepted. The kernel reduces it to net.core.somaxconn.
constexpr int kBacklog = 4096;

uint16_t port_of(const sockaddr_storage& address) {
  return ntohs(address.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in&>(address).sin_port
                                            : reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
}

void set_port(sockaddr_storage& address, uint16_t port) {
  if (address.ss_family == AF_INET) {
    reinterpret_cast<sockaddr_in&>(address).sin_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in6&>(address).sin6_port = htons(port);
  }
}

Status cannot_listen(const std::string& address, uint16_t port, int error) {
  const std::string where = "port " + std::to_string(port) + " of " + address;
  if (error == EADDRINUSE) {
    return {ErrorCode::kIo,
            where + " is in use by another program; choose another with --port N, or any free one with --port 0"};
  }
  if (error == EACCES) {
    return {ErrorCode::kIo, where + " needs root: ports below 1024 are privileged; choose another with --port N"};
  }
  if (error == EADDRNOTAVAIL)
    return {ErrorCode::kIo, address + " is not an address of this machine; choose another with --host"};
  return {ErrorCode::kIo, "cannot listen on " + where + ": " + std::strerror(error)};
}

}  // namespace

ListeningSocket::ListeningSocket(ListeningSocket&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      port_(other.port_),
      is_public_(other.is_public_),
      file_(std::move(other.file_)) {}

ListeningSocket::~ListeningSocket() {
  if (descriptor_ >= 0) close(descriptor_);
}

int ListeningSocket::release_descriptor() { return std::exchange(descriptor_, -1); }

Result<std::vector<ListeningSocket>> ListeningSocket::open_tcp(const std::string& address, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(address.c_str(), nullptr, &hints, &list); error != 0) {
    return {ErrorCode::kInvalidArgument, "'" + address + "' is not an address: " + gai_strerror(error)};
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, freeaddrinfo);
  std::vector<ListeningSocket> sockets;
  int last_error = 0;
  for (const addrinfo* info = list; info != nullptr; info = info->ai_next) {
    sockaddr_storage bound{};
    std::memcpy(&bound, info->ai_addr, std::min<size_t>(info->ai_addrlen, sizeof(bound)));
    set_port(bound, port);
    ListeningSocket opened(socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (opened.descriptor_ < 0) {
      last_error = errno;
      continue;  // no such socket can be created: for example, IPv6 on a machine without IPv6
    }
    const int on = 1;
    const int off = 0;
    setsockopt(opened.descriptor_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    // Without this option "::" would accept IPv4 as well.
    if (info->ai_family == AF_INET6) setsockopt(opened.descriptor_, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    socklen_t length = info->ai_addrlen;
    if (bind(opened.descriptor_, reinterpret_cast<const sockaddr*>(&bound), length) != 0 ||
        ::listen(opened.descriptor_, kBacklog) != 0) {
      last_error = errno;
      const bool missing = last_error == EADDRNOTAVAIL && info->ai_next != nullptr;
      if (missing || (last_error == EADDRNOTAVAIL && !sockets.empty())) continue;
      return cannot_listen(address, port, last_error);
    }
    length = sizeof(bound);
    getsockname(opened.descriptor_, reinterpret_cast<sockaddr*>(&bound), &length);
    opened.port_ = port = port_of(bound);
    opened.is_public_ = !net::is_loopback(*info->ai_addr);
    sockets.push_back(std::move(opened));
  }
  if (sockets.empty()) return cannot_listen(address, port, last_error);
  return sockets;
}

Result<ListeningSocket> ListeningSocket::open_unix(const std::string& path) {
  TRY_ASSIGN(net::UnixListener listener, net::listen_unix(path));
  ListeningSocket opened(listener.descriptor);
  opened.file_.emplace(std::move(listener.file));
  return opened;
}

Delivery delivery_of(int socket) {
  tcp_info info{};
  socklen_t length = sizeof(info);
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return Delivery::kDone;
  if (length < offsetof(tcp_info, tcpi_bytes_retrans) + sizeof(info.tcpi_bytes_retrans)) return Delivery::kDone;
  const bool is_all_sent = info.tcpi_notsent_bytes == 0;
  if (is_all_sent && info.tcpi_bytes_acked + info.tcpi_bytes_retrans >= info.tcpi_bytes_sent) return Delivery::kDone;
  constexpr int kClosed = 7;  // value of TCP_CLOSE in netinet/tcp.h: the client's kernel has refused bytes
  return info.tcpi_state == kClosed ? Delivery::kLost : Delivery::kUnderWay;
}

}  // namespace ibid::http
