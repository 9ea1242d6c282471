// SocketStream: a ByteStream over a connected TCP or Unix socket. Internal to the connector; TlsStream is built on it.
#pragma once

#include <utility>

#include "base/clock.h"
#include "net/byte_stream.h"

namespace ibid::net {

// An open descriptor of a non-blocking socket, closed when destroyed.
class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&&) = delete;
  ~Socket();

  int descriptor() const { return descriptor_; }
  // Waits until bytes can be received or sent, or until a call will report why not. Looks at the clock and for a stop
  // request at least every 10 ms. Errors: kDeadline, kCancelled, kIo.
  enum class Ready { kToReceive, kToSend };
  Status wait(Ready ready, const TimeLimits& limits, Clock& clock) const;

 private:
  int descriptor_;
};

// Returns kDeadline or kCancelled if a limit is reached, without waiting.
Status check_limits(const TimeLimits& limits, Clock& clock);

class SocketStream : public ByteStream {
 public:
  SocketStream(Socket socket, Clock& clock) : socket_(std::move(socket)), clock_(clock) {}

  Status send(Pieces pieces, const TimeLimits& limits) override;
  Result<size_t> receive(std::span<std::byte> room, const TimeLimits& limits) override;
  bool is_quiet() override;

 private:
  Socket socket_;
  Clock& clock_;
};

}  // namespace ibid::net
