// Where a server is that speaks OpenAI's chat completions, and the key that it wants. A value.
#pragma once

#include <string>

#include "base/result.h"

namespace ibid {

struct ServerAddress {
  std::string base;         // "http://127.0.0.1:8080": what stands in front of "/v1/..."
  std::string unix_socket;  // a path; empty: none
  std::string key;          // empty: none
  std::string name() const { return unix_socket.empty() ? base : "unix:" + unix_socket; }  // for people
};

// http://HOST[:PORT][/PATH], the same with https, or unix:PATH for a Unix socket. "/v1" at the end, which the clients
// of others want, may stand there or not.
// Error: kInvalidArgument, which says what is wrong; also for a key in the URL, which every user of the machine can
// read on a command line.
Result<ServerAddress> parse_server_address(const std::string& url);

// The key of a client: the first of the file, which may be the server's own (server/http/api_keys.h); without a
// file that of IBID_API_KEY; else empty. Errors: those of reading the file.
Result<std::string> read_client_key(const std::string& path);

}  // namespace ibid
