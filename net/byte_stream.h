// ByteStream: a connection to a server, with deadlines. For one thread at a time.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "base/time_limits.h"

namespace ibid::net {

class ByteStream {
 public:
  using Pieces = std::span<const std::span<const std::byte>>;

  virtual ~ByteStream() = default;
  // Sends all pieces in their order; large ones are not copied. Errors: kIo, kDeadline, kCancelled; some bytes may have
  // been sent then.
  virtual Status send(Pieces pieces, const TimeLimits& limits) = 0;
  // Receives at least one byte, and returns how many; 0 if the server has closed the connection. Errors: as send().
  // REQUIRES: `room` is not empty.
  virtual Result<size_t> receive(std::span<std::byte> room, const TimeLimits& limits) = 0;
  // False if the server has closed the connection, or sent bytes that no call has asked for. Does not wait.
  virtual bool is_quiet() = 0;
};

}  // namespace ibid::net
