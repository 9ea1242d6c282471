// TlsStream: a ByteStream with TLS 1.2 or later over a connected socket (OpenSSL). The server's certificate is
// verified: it must be signed by a trusted authority and be of the wanted host.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "net/byte_stream.h"
#include "net/server_address.h"
#include "net/socket_stream.h"

struct ssl_ctx_st;
struct ssl_st;

namespace ibid::net {

// Certificates and settings for connections to one server. Thread-safe.
class TlsContext {
 public:
  // Error: kInvalidArgument, naming the file that cannot be read or is not valid.
  static Result<std::shared_ptr<const TlsContext>> create(const TlsFiles& files);
  ssl_ctx_st* native() const { return context_.get(); }

 private:
  struct Free {
    void operator()(ssl_ctx_st* context) const;
  };
  explicit TlsContext(ssl_ctx_st* context) : context_(context) {}
  const std::unique_ptr<ssl_ctx_st, Free> context_;
};

class TlsStream : public ByteStream {
 public:
  // Performs the handshake. host: the name or address that the certificate must have. Errors: kIo, with OpenSSL's
  // reason; kDeadline; kCancelled; kOutOfMemory.
  static Result<std::unique_ptr<ByteStream>> connect(Socket socket, const TlsContext& context, const std::string& host,
                                                     const TimeLimits& limits, Clock& clock);

  Status send(Pieces pieces, const TimeLimits& limits) override;
  Result<size_t> receive(std::span<std::byte> room, const TimeLimits& limits) override;
  bool is_quiet() override;

 private:
  struct Free {
    void operator()(ssl_st* session) const;
  };
  TlsStream(Socket socket, ssl_st* session, Clock& clock);
  Status send_all(std::span<const std::byte> bytes, const TimeLimits& limits);
  // Waits as the result of an OpenSSL call demands; ok: repeat the call. what: for the message.
  Status wait_after(int result, const char* what, const TimeLimits& limits);

  Socket socket_;
  const std::unique_ptr<ssl_st, Free> session_;
  Clock& clock_;
};

}  // namespace ibid::net
