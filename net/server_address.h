// ServerAddress: the address of a key-value server and the login, parsed from a URL:
//   redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]     TCP; PORT: 6379 if absent
//   rediss://...                                         the same with TLS
//   unix:PATH or unix://[[USER]:PASSWORD@]PATH           a Unix socket with an absolute path
// USER, PASSWORD and PATH may have percent escapes. Options follow "?" and are separated by "&":
//   database=N          as DATABASE
//   ca_file=FILE        certificates (PEM) that sign the server's; without it those of the system
//   certificate_file=FILE, key_file=FILE   the client's own certificate and private key (PEM)
// Messages never contain the user or the password.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ibid::net {

struct TlsFiles {
  std::string ca_file, certificate_file, key_file;
};

struct ServerAddress {
  enum class Kind { kTcp, kTls, kUnix };

  Kind kind = Kind::kTcp;
  std::string host;  // a name, an IPv4 or an IPv6 address without brackets
  uint16_t port = 6379;
  std::string path;  // path of a Unix socket
  std::string user, password;
  int database = 0;
  TlsFiles tls;

  // Error: kInvalidArgument, which names the part of the URL.
  static Result<ServerAddress> parse(std::string_view url);

  // The address without the login: "redis://127.0.0.1:6379", "unix:/run/redis.sock".
  std::string shown() const;
  // True for a Unix socket, "localhost" and the loopback addresses: connections to them do not leave this machine.
  bool is_local() const;
};

}  // namespace ibid::net
