// Addresses of sockets, for clients and servers. Pure functions.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>

#include "base/result.h"

namespace ibid::net {

// True for 127.0.0.0/8, ::1, and the former as an IPv6 address (::ffff:127.0.0.1).
bool is_loopback(const sockaddr& address);
// As above, for an address as text; false for a name.
bool is_loopback(const std::string& address);
// Error: kInvalidArgument if the path is longer than a socket address can hold.
Result<sockaddr_un> unix_address(const std::string& path);

}  // namespace ibid::net
