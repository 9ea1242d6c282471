#include "net/server_address.h"

#include <charconv>
#include <optional>
#include <utility>

#include "base/percent_encoding.h"
#include "base/text.h"
#include "net/socket_address.h"

namespace ibid::net {

namespace {

constexpr int kMaxDatabase = 65'535;

Status bad_url(const std::string& what) { return {ErrorCode::kInvalidArgument, "URL of the server: " + what}; }

// Returns nothing for an invalid escape or a NUL.
std::optional<std::string> decoded(std::string_view text) {
  std::optional<std::string> bytes = percent_decoded(text);
  if (bytes && bytes->find('\0') != bytes->npos) bytes.reset();
  return bytes;
}

std::optional<int> number_up_to(std::string_view text, int most) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > most) return std::nullopt;
  return value;
}

Status set_database(ServerAddress& address, std::string_view text) {
  const std::optional<int> number = number_up_to(text, kMaxDatabase);
  if (!number) return bad_url("database " + in_quotes(text) + ", allowed: 0 to " + std::to_string(kMaxDatabase));
  address.database = *number;
  return {};
}

Status set_option(ServerAddress& address, std::string_view option) {
  const size_t equals = option.find('=');
  const std::string_view name = option.substr(0, equals);
  const auto value = decoded(equals == option.npos ? std::string_view() : option.substr(equals + 1));
  if (!value || value->empty()) return bad_url("option " + in_quotes(name) + " has no valid value");
  if (name == "database") return set_database(address, *value);
  const std::pair<std::string_view, std::string*> files[] = {{"ca_file", &address.tls.ca_file},
                                                             {"certificate_file", &address.tls.certificate_file},
                                                             {"key_file", &address.tls.key_file}};
  for (const auto& [known, file] : files) {
    if (name != known) continue;
    if (address.kind != ServerAddress::Kind::kTls) return bad_url(std::string(known) + " needs rediss://");
    *file = *value;
    return {};
  }
  return bad_url("unknown option " + in_quotes(name) + ", known: database, ca_file, certificate_file, key_file");
}

// login: the text before "@".
Status set_login(ServerAddress& address, std::string_view login) {
  const size_t colon = login.find(':');
  if (colon == login.npos) return bad_url("the login must be USER:PASSWORD@ or :PASSWORD@");
  auto user = decoded(login.substr(0, colon)), password = decoded(login.substr(colon + 1));
  if (!user || !password || password->empty()) return bad_url("the login has an invalid percent escape or no password");
  address.user = *std::move(user);
  address.password = *std::move(password);
  return {};
}

// place: HOST[:PORT][/DATABASE].
Status set_host(ServerAddress& address, std::string_view place) {
  const size_t slash = place.find('/');
  if (slash != place.npos && slash + 1 < place.size()) TRY(set_database(address, place.substr(slash + 1)));
  place = place.substr(0, slash);
  std::string_view port;
  if (place.starts_with('[')) {
    const size_t end = place.find(']');
    if (end == place.npos) return bad_url("an IPv6 address must end with ]");
    address.host = place.substr(1, end - 1);
    port = place.substr(end + 1);
    if (!port.empty() && port[0] != ':') return bad_url("only :PORT may follow ]");
  } else {
    const size_t colon = place.find(':');
    address.host = place.substr(0, colon);
    if (colon != place.npos) port = place.substr(colon);
  }
  if (address.host.empty() || address.host.size() > 255) return bad_url("the host must have 1 to 255 characters");
  for (const char c : address.host) {
    if (c <= ' ' || c >= 0x7f) return bad_url("the host " + in_quotes(address.host) + " has an invalid character");
  }
  if (port.empty()) return {};
  const std::optional<int> number = number_up_to(port.substr(1), 65'535);
  // Not quoted: without a host this is the password.
  if (!number || *number == 0) return bad_url("the port must be a number from 1 to 65535");
  address.port = static_cast<uint16_t>(*number);
  return {};
}

Status set_path(ServerAddress& address, std::string_view path) {
  auto text = decoded(path);
  if (!text || !text->starts_with('/')) return bad_url("unix: must be followed by an absolute path");
  TRY(unix_address(*text).status());
  address.path = *std::move(text);
  return {};
}

}  // namespace

Result<ServerAddress> ServerAddress::parse(std::string_view url) {
  constexpr std::pair<std::string_view, Kind> kSchemes[] = {
      {"redis://", Kind::kTcp}, {"rediss://", Kind::kTls}, {"unix:", Kind::kUnix}};
  ServerAddress address;
  size_t scheme_bytes = 0;
  for (const auto& [scheme, kind] : kSchemes) {
    if (!starts_ignoring_case(url, scheme)) continue;
    address.kind = kind;
    scheme_bytes = scheme.size();
  }
  if (scheme_bytes == 0) return bad_url("it must begin with redis://, rediss:// or unix:");
  url.remove_prefix(scheme_bytes);
  const bool is_unix = address.kind == Kind::kUnix;
  const bool has_authority = !is_unix || url.starts_with("//");
  if (is_unix && has_authority) url.remove_prefix(2);
  const size_t question = url.find('?');
  std::string_view place = url.substr(0, question);
  // The last "@" before a path ends the login, because a password may contain "@".
  const size_t at = has_authority ? place.substr(0, place.find('/')).rfind('@') : place.npos;
  if (at != place.npos) {
    TRY(set_login(address, place.substr(0, at)));
    place.remove_prefix(at + 1);
  }
  TRY(is_unix ? set_path(address, place) : set_host(address, place));
  if (question != url.npos) {
    Status status;
    for_each_piece(url.substr(question + 1), '&', [&](std::string_view option) {
      status = set_option(address, option);
      return !status.ok();
    });
    TRY(status);
  }
  if (address.tls.certificate_file.empty() != address.tls.key_file.empty()) {
    return bad_url("certificate_file and key_file must be given together");
  }
  return address;
}

std::string ServerAddress::shown() const {
  if (kind == Kind::kUnix) return "unix:" + path;
  const bool is_v6 = host.find(':') != host.npos;
  return std::string(kind == Kind::kTls ? "rediss://" : "redis://") + (is_v6 ? "[" + host + "]" : host) + ":" +
         std::to_string(port);
}

bool ServerAddress::is_local() const {
  return kind == Kind::kUnix || equals_ignoring_case(host, "localhost") || is_loopback(host);
}

}  // namespace ibid::net
