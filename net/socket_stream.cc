#include "net/socket_stream.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace ibid::net {

namespace {

constexpr int64_t kNsPerMs = 1'000'000;
constexpr int64_t kMaxWaitMs = 10;  // maximum time between two checks of the clock

Status connection_failed(int error_number) {
  return {ErrorCode::kIo, std::string("connection: ") + std::strerror(error_number)};
}

}  // namespace

Socket::Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

Socket::~Socket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status check_limits(const TimeLimits& limits, Clock& clock) {
  if (limits.stop.stop_requested()) return {ErrorCode::kCancelled, "connection: cancelled"};
  if (limits.reached(clock)) return {ErrorCode::kDeadline, "connection: the server did not answer in time"};
  return {};
}

Status Socket::wait(Ready ready, const TimeLimits& limits, Clock& clock) const {
  for (;;) {
    TRY(check_limits(limits, clock));
    const auto wait_ms = std::clamp<int64_t>(limits.left(clock).count() / kNsPerMs, 1, kMaxWaitMs);
    pollfd waited{descriptor_, static_cast<short>(ready == Ready::kToSend ? POLLOUT : POLLIN), 0};
    const int n = ::poll(&waited, 1, static_cast<int>(wait_ms));
    if (n > 0) return {};
    if (n < 0 && errno != EINTR) return connection_failed(errno);
  }
}

Status SocketStream::send(Pieces pieces, const TimeLimits& limits) {
  constexpr size_t kMaxPieces = 64;  // maximum pieces of one system call
  size_t n_sent = 0;                 // number of bytes of the first piece that were sent
  while (!pieces.empty()) {
    if (n_sent == pieces[0].size()) {
      pieces = pieces.subspan(1);
      n_sent = 0;
      continue;
    }
    std::array<iovec, kMaxPieces> parts;
    const size_t n = std::min(pieces.size(), kMaxPieces);
    for (size_t i = 0; i < n; ++i) {
      const std::span<const std::byte> piece = pieces[i].subspan(i == 0 ? n_sent : 0);
      parts[i] = {const_cast<std::byte*>(piece.data()), piece.size()};
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = n;
    const ssize_t sent = ::sendmsg(socket_.descriptor(), &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) return connection_failed(errno);
      TRY(socket_.wait(Socket::Ready::kToSend, limits, clock_));
      continue;
    }
    for (n_sent += static_cast<size_t>(sent); !pieces.empty() && n_sent >= pieces[0].size();) {
      n_sent -= pieces[0].size();
      pieces = pieces.subspan(1);
    }
    if (!pieces.empty()) TRY(check_limits(limits, clock_));
  }
  return {};
}

Result<size_t> SocketStream::receive(std::span<std::byte> room, const TimeLimits& limits) {
  TRY(check_limits(limits, clock_));
  for (;;) {
    const ssize_t n = ::recv(socket_.descriptor(), room.data(), room.size(), 0);
    if (n >= 0) return static_cast<size_t>(n);
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return connection_failed(errno);
    TRY(socket_.wait(Socket::Ready::kToReceive, limits, clock_));
  }
}

bool SocketStream::is_quiet() {
  std::byte next{};
  return ::recv(socket_.descriptor(), &next, 1, MSG_PEEK) < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

}  // namespace ibid::net
