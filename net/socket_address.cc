#include "net/socket_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>

namespace ibid::net {

namespace {

bool is_loopback_v4(uint32_t network_order) { return (ntohl(network_order) >> 24) == 127; }

bool is_loopback_v6(const in6_addr& address) {
  if (!IN6_IS_ADDR_V4MAPPED(&address)) return IN6_IS_ADDR_LOOPBACK(&address);
  uint32_t v4 = 0;
  std::memcpy(&v4, address.s6_addr + 12, sizeof v4);
  return is_loopback_v4(v4);
}

}  // namespace

bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    return is_loopback_v4(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr);
  }
  return address.sa_family == AF_INET6 && is_loopback_v6(reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

bool is_loopback(const std::string& address) {
  in_addr v4{};
  in6_addr v6{};
  if (inet_pton(AF_INET, address.c_str(), &v4) == 1) return is_loopback_v4(v4.s_addr);
  return inet_pton(AF_INET6, address.c_str(), &v6) == 1 && is_loopback_v6(v6);
}

Result<sockaddr_un> unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return {ErrorCode::kInvalidArgument, "the path of a Unix socket has at most " +
                                             std::to_string(sizeof(address.sun_path) - 1) + " bytes: " + path};
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

}  // namespace ibid::net
