#include "net/connector.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "net/socket_address.h"
#include "net/socket_stream.h"

namespace ibid::net {

namespace {

struct FoundAddress {
  sockaddr_storage bytes{};
  socklen_t length = 0;
};

// Returns the addresses of a host, or an error of getaddrinfo().
std::pair<int, std::vector<FoundAddress>> look_up(const std::string& host, uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, [](addrinfo* first) {
    if (first != nullptr) ::freeaddrinfo(first);
  });
  std::vector<FoundAddress> found;
  for (const addrinfo* info = list; error == 0 && info != nullptr; info = info->ai_next) {
    FoundAddress& address = found.emplace_back();
    address.length = std::min<socklen_t>(info->ai_addrlen, sizeof(address.bytes));
    std::memcpy(&address.bytes, info->ai_addr, address.length);
  }
  return {error, std::move(found)};
}

// A look-up on a thread of its own, because getaddrinfo() has no deadline. The thread may outlive its caller.
struct LookUp {
  std::mutex mutex;
  std::condition_variable done;
  std::optional<std::pair<int, std::vector<FoundAddress>>> result;  // guarded by mutex
};

Result<std::vector<FoundAddress>> resolve(const ServerAddress& address, const TimeLimits& limits, Clock& clock) {
  auto [error, found] = look_up(address.host, address.port, AI_NUMERICHOST);
  if (error == 0) return std::move(found);
  const auto look = std::make_shared<LookUp>();
  try {
    std::thread([look, host = address.host, port = address.port] {
      auto result = look_up(host, port, 0);
      const std::lock_guard lock(look->mutex);
      look->result = std::move(result);
      look->done.notify_all();
    }).detach();
  } catch (const std::system_error&) {
    return {ErrorCode::kIo, "no thread for resolving the name"};
  }
  std::unique_lock lock(look->mutex);
  while (!look->result) {
    TRY(check_limits(limits, clock));
    look->done.wait_for(lock, std::chrono::milliseconds(10));
  }
  if (look->result->first != 0) return {ErrorCode::kIo, ::gai_strerror(look->result->first)};
  return std::move(look->result->second);
}

Result<Socket> connect_socket(const sockaddr& address, socklen_t length, const TimeLimits& limits, Clock& clock) {
  Socket socket(::socket(address.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.descriptor() < 0) return {ErrorCode::kIo, std::strerror(errno)};
  if (address.sa_family != AF_UNIX) {
    const int on = 1;
    setsockopt(socket.descriptor(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(socket.descriptor(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  }
  if (::connect(socket.descriptor(), &address, length) == 0) return socket;
  if (errno != EINPROGRESS && errno != EINTR) return {ErrorCode::kIo, std::strerror(errno)};
  TRY(socket.wait(Socket::Ready::kToSend, limits, clock));
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return {ErrorCode::kIo, std::strerror(error)};
  return socket;
}

}  // namespace

Result<Connector> Connector::create(ServerAddress address, bool only_local, Clock& clock) {
  if (only_local && !address.is_local()) {
    return {ErrorCode::kInvalidArgument, address.shown() + " is not an address of this machine"};
  }
  Connector connector(std::move(address), only_local, clock);
  if (connector.address_.kind == ServerAddress::Kind::kTls) {
    TRY_ASSIGN(connector.tls_, TlsContext::create(connector.address_.tls));
  }
  return connector;
}

Result<std::unique_ptr<ByteStream>> Connector::connect(const TimeLimits& limits) const {
  auto stream = address_.kind == ServerAddress::Kind::kUnix ? connect_unix(limits) : connect_tcp(limits);
  if (stream.ok()) return stream;
  return {stream.status().code(), address_.shown() + ": " + stream.status().message()};
}

Result<std::unique_ptr<ByteStream>> Connector::connect_tcp(const TimeLimits& limits) const {
  TRY_ASSIGN(const std::vector<FoundAddress> found, resolve(address_, limits, *clock_));
  Status failed(ErrorCode::kIo, "the name has no address");
  for (const FoundAddress& candidate : found) {
    const auto& bytes = reinterpret_cast<const sockaddr&>(candidate.bytes);
    if (only_local_ && !is_loopback(bytes)) {
      failed = {ErrorCode::kIo, "the name is not an address of this machine"};
      continue;
    }
    Result<Socket> socket = connect_socket(bytes, candidate.length, limits, *clock_);
    if (!socket.ok()) {
      failed = socket.status();
      if (failed.code() != ErrorCode::kIo) break;
      continue;
    }
    if (tls_ != nullptr) return TlsStream::connect(*std::move(socket), *tls_, address_.host, limits, *clock_);
    return std::unique_ptr<ByteStream>(std::make_unique<SocketStream>(*std::move(socket), *clock_));
  }
  return failed;
}

Result<std::unique_ptr<ByteStream>> Connector::connect_unix(const TimeLimits& limits) const {
  TRY_ASSIGN(const sockaddr_un address, unix_address(address_.path));
  TRY_ASSIGN(Socket socket,
             connect_socket(reinterpret_cast<const sockaddr&>(address), sizeof address, limits, *clock_));
  return std::unique_ptr<ByteStream>(std::make_unique<SocketStream>(std::move(socket), *clock_));
}

}  // namespace ibid::net
