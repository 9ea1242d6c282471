#include "apps/chat_client/server_address.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "server/http/api_keys.h"

namespace ibid {

namespace {

constexpr std::string_view kUnix = "unix:";
constexpr std::string_view kWanted = "wanted http://HOST:PORT, https://HOST or unix:PATH";

Status wrong(const std::string& what) { return {ErrorCode::kInvalidArgument, "--url: " + what}; }

bool has_blank_or_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) <= 0x20 || c == 0x7f; });
}

}  // namespace

Result<ServerAddress> parse_server_address(const std::string& url) {
  ServerAddress address;
  if (url.starts_with(kUnix)) {
    std::string_view path = std::string_view(url).substr(kUnix.size());
    if (path.starts_with("//")) path.remove_prefix(2);
    if (path.empty()) return wrong("a path is missing behind unix:");
    address.base = "http://localhost";
    address.unix_socket = path;
    return address;
  }
  if (has_blank_or_control(url)) return wrong("there is a blank in it; " + std::string(kWanted));
  const size_t scheme = url.find("://");
  if (!url.starts_with("http://") && !url.starts_with("https://")) {
    const bool may_be_host = scheme == std::string::npos && !url.empty() && url[0] != '/' && url[0] != '.';
    return wrong("'" + url + "' is no URL; " + std::string(kWanted) + (may_be_host ? ", as http://" + url : ""));
  }
  const size_t host = scheme + 3;
  const size_t path = std::min(url.find('/', host), url.size());
  if (path == host) return wrong("'" + url + "' names no host; " + std::string(kWanted));
  if (url.find('@', host) < path) return wrong("a key does not belong into the URL: --api-key-file FILE, IBID_API_KEY");
  if (url.find_first_of("?#", host) != std::string::npos) return wrong("'" + url + "' has a ? or # in it");
  address.base = url;
  while (address.base.size() > host && address.base.ends_with('/')) address.base.pop_back();
  if (address.base.ends_with("/v1")) address.base.resize(address.base.size() - 3);
  while (address.base.size() > host && address.base.ends_with('/')) address.base.pop_back();
  return address;
}

Result<std::string> read_client_key(const std::string& path) {
  TRY_ASSIGN(const std::vector<http::ApiKey> keys, serve::read_api_keys(path));
  return keys.empty() ? std::string() : keys.front().key;
}

}  // namespace ibid
