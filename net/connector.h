// Connector: connects to one server over TCP, TLS or a Unix socket, within a deadline that covers the resolution of the
// name, the connection and the handshake. Thread-safe.
#pragma once

#include <memory>

#include "base/clock.h"
#include "net/byte_stream.h"
#include "net/server_address.h"
#include "net/tls_stream.h"

namespace ibid::net {

class Connector {
 public:
  // only_local: refuse to connect to other machines, also if the name is resolved to an address of one. Errors:
  // kInvalidArgument for invalid TLS files, and for an address that cannot be local. `clock` must outlive the connector
  // and its connections.
  static Result<Connector> create(ServerAddress address, bool only_local, Clock& clock = system_clock());

  // Errors: kIo, kDeadline, kCancelled; messages name the server.
  Result<std::unique_ptr<ByteStream>> connect(const TimeLimits& limits) const;

  const ServerAddress& address() const { return address_; }
  Clock& clock() const { return *clock_; }

 private:
  Connector(ServerAddress address, bool only_local, Clock& clock)
      : address_(std::move(address)), only_local_(only_local), clock_(&clock) {}
  Result<std::unique_ptr<ByteStream>> connect_tcp(const TimeLimits& limits) const;
  Result<std::unique_ptr<ByteStream>> connect_unix(const TimeLimits& limits) const;

  ServerAddress address_;
  bool only_local_;
  std::shared_ptr<const TlsContext> tls_;  // null: no TLS
  Clock* clock_;
};

}  // namespace ibid::net
