#include "server/http/request_filter.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/text.h"

namespace ibid::http {

namespace {

constexpr size_t kMaxEchoed = 2048;  // maximum bytes of the header names in a CORS preflight

// The parts of "host:80", "[::1]:80" or "host"; the host is in lower case.
struct HostAndPort {
  std::string host;  // "::1" without its brackets
  int port = 0;      // 0: the text has no port
  bool is_address = false;
};

bool is_address_v4(const std::string& host) {
  in_addr address{};
  return inet_pton(AF_INET, host.c_str(), &address) == 1;
}

bool is_address_v6(const std::string& host) {
  in6_addr address{};
  return inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

// Returns the port after ":"; -1 if it is invalid.
int read_port(std::string_view text) {
  int port = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && port > 0 && port <= 65535 ? port : -1;
}

// Returns nullopt if the text is invalid.
std::optional<HostAndPort> read_host(std::string_view text) {
  HostAndPort read;
  size_t end = std::min(text.find(':'), text.size());
  if (text.starts_with('[')) {
    end = text.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    read.host = lower_ascii(text.substr(1, end - 1));
    if (!is_address_v6(read.host)) return std::nullopt;
    read.is_address = true;
    ++end;
  } else {
    read.host = lower_ascii(text.substr(0, end));
    read.is_address = is_address_v4(read.host);
    if (read.host.ends_with('.')) read.host.pop_back();  // "localhost." and "localhost" are the same name
  }
  if (end < text.size()) {
    if (text[end] != ':') return std::nullopt;
    read.port = read_port(text.substr(end + 1));
    if (read.port < 0) return std::nullopt;
  }
  if (read.host.empty()) return std::nullopt;
  return read;
}

bool is_localhost(const HostAndPort& place) {
  return place.host == "localhost" || place.host.ends_with(".localhost") || place.host == "127.0.0.1" ||
         place.host == "::1";
}

bool is_listed(const std::vector<std::string>& list, std::string_view text) {
  return std::any_of(list.begin(), list.end(),
                     [&](const std::string& entry) { return entry == "*" || equals_ignoring_case(entry, text); });
}

// True for a list of header names and commas, which is safe to return to a browser.
bool is_list_of_names(std::string_view text) {
  return text.size() <= kMaxEchoed && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
                  c == ',' || c == ' ';
         });
}

// True for letters and digits of ASCII, and for `marks`.
bool is_plain(char c, std::string_view marks) {
  const char letter = lower_ascii(c);
  return (letter >= 'a' && letter <= 'z') || is_decimal_digit(c) || marks.find(c) != marks.npos;
}

std::string loggable_path(std::string_view path) {
  constexpr size_t kMaxPath = 128;
  constexpr std::string_view kMarks = "-_./~";
  std::string text(path.substr(0, kMaxPath));
  for (char& c : text) c = is_plain(c, kMarks) ? c : '?';
  return text;
}

std::string_view field(const RequestHead& head, std::string_view name) {
  for (const auto& [key, value] : head.headers) {
    if (equals_ignoring_case(key, name)) return trimmed(value, kHeaderBlanks);
  }
  return {};
}

// Reads the header x-ibid-namespace. may_name: the key of the request allows it.
Refusal read_namespace(const RequestHead& head, bool may_name, Admission& admission) {
  constexpr size_t kMaxName = 128;
  constexpr std::string_view kMarks = "-_.:@";
  std::vector<std::string_view> names;
  for (const auto& [key, value] : head.headers) {
    if (equals_ignoring_case(key, "x-ibid-namespace")) names.push_back(trimmed(value, kHeaderBlanks));
  }
  if (names.empty()) return {};
  if (!may_name) return {403, "x-ibid-namespace needs an API key whose line in the key file ends with \"namespaces\""};
  const std::string_view name = names.front();
  const bool is_name = names.size() == 1 && !name.empty() && name.size() <= kMaxName &&
                       std::all_of(name.begin(), name.end(), [&](char c) { return is_plain(c, kMarks); });
  if (!is_name) return {400, "x-ibid-namespace must be one name of 1 to 128 letters, digits and \"-_.:@\""};
  admission.named_namespace = name;
  return {};
}

Sha256Digest digest_of(std::string_view key) {
  Sha256 hash;
  hash.update(key);
  return hash.finish();
}

bool same_digest(const Sha256Digest& a, const Sha256Digest& b) {
  std::byte difference{0};
  for (size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == std::byte{0};
}

// Returns KEY of "Bearer KEY"; empty for another scheme.
std::string_view bearer_of(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (!equals_ignoring_case(authorization.substr(0, kScheme.size()), kScheme)) return {};
  return trimmed(authorization.substr(kScheme.size()));
}

}  // namespace

KeyRing::KeyRing(const std::vector<ApiKey>& keys) {
  for (const ApiKey& key : keys) {
    entries_.push_back({digest_of(key.key), key.cache_namespace, key.names_namespaces});
  }
}

const KeyRing::Entry* KeyRing::find_key(std::string_view key) const {
  const Sha256Digest digest = digest_of(key);
  const Entry* found = nullptr;
  for (const Entry& entry : entries_) {
    if (same_digest(entry.digest, digest)) found = &entry;
  }
  return found;
}

const KeyRing::Entry* KeyRing::find(const Headers& headers) const {
  std::string_view bearer, x_api_key;
  for (const auto& [name, value] : headers) {
    const std::string_view content = trimmed(value, kHeaderBlanks);
    if (equals_ignoring_case(name, "authorization") && bearer.empty()) bearer = bearer_of(content);
    if (equals_ignoring_case(name, "x-api-key") && x_api_key.empty()) x_api_key = content;
  }
  const Entry* entry = bearer.empty() ? nullptr : find_key(bearer);
  if (entry == nullptr && !x_api_key.empty()) entry = find_key(x_api_key);
  return entry;
}

RequestFilter::RequestFilter(FilterRules rules, const std::vector<ApiKey>& keys, Router router)
    : rules_(std::move(rules)), keys_(keys), router_(std::move(router)) {}

bool RequestFilter::may_be_called(std::string_view host) const {
  const std::optional<HostAndPort> place = read_host(host);
  if (!place) return false;
  return place->is_address || is_localhost(*place) || is_listed(rules_.allowed_hosts, place->host);
}

bool RequestFilter::may_ask(std::string_view origin, std::string_view host) const {
  if (is_listed(rules_.allowed_origins, origin)) return true;
  const int default_port = origin.starts_with("http://") ? 80 : origin.starts_with("https://") ? 443 : 0;
  if (default_port == 0) return false;  // the origin is "null", or has another scheme than http and https
  const std::optional<HostAndPort> from = read_host(origin.substr(origin.find("//") + 2));
  if (!from) return false;
  const int from_port = from->port == 0 ? default_port : from->port;
  if (rules_.port != 0 && is_localhost(*from) && from_port == rules_.port) return true;
  const std::optional<HostAndPort> to = read_host(host);
  if (!to || to->host != from->host) return false;
  return (to->port == 0 ? default_port : to->port) == from_port;
}

void RequestFilter::add_cors(const RequestHead& head, std::string_view origin, Admission& admission) const {
  admission.headers.emplace_back("Access-Control-Allow-Origin", origin);
  admission.headers.emplace_back("Vary", "Origin");
  admission.headers.emplace_back("Access-Control-Expose-Headers", "x-request-id, request-id, traceparent, retry-after");
  if (head.method != "OPTIONS") return;
  const std::string_view wanted = field(head, "access-control-request-headers");
  if (!wanted.empty() && is_list_of_names(wanted)) {
    admission.headers.emplace_back("Access-Control-Allow-Headers", wanted);
  }
  if (field(head, "access-control-request-private-network") == "true") {
    admission.headers.emplace_back("Access-Control-Allow-Private-Network", "true");
  }
  admission.headers.emplace_back("Access-Control-Max-Age", "600");
}

Admission RequestFilter::admit(const RequestHead& head, bool is_local) const {
  Admission admission;
  const auto refuse = [&](int status, std::string_view message) {
    admission.refusal = {status, message};
    return std::move(admission);
  };
  if (!is_local && !head.host.empty() && !may_be_called(head.host)) {
    return refuse(403, "host not allowed: add it with --allow-host NAME");
  }
  const std::string_view origin = field(head, "origin");
  if (!origin.empty()) {
    if (!may_ask(origin, head.host)) {
      return refuse(403, "origin not allowed: add it with --allow-origin ORIGIN");
    }
    add_cors(head, origin, admission);
  }
  Router::Match match = router_.find(head.method, head.target.path);
  std::string allowed = match.allowed.empty() ? "" : match.allowed + ", OPTIONS";
  if (head.method == "OPTIONS" && (!allowed.empty() || head.target.path == "*")) {
    if (!allowed.empty()) admission.headers.emplace_back("Allow", allowed);
    if (!origin.empty()) admission.headers.emplace_back("Access-Control-Allow-Methods", allowed);
    admission.status = 200;
    return admission;
  }
  const bool needs_key = match.handler == nullptr || match.access == Access::kKey;
  const KeyRing::Entry* key = needs_key ? keys_.find(head.headers) : nullptr;
  if (needs_key && !keys_.empty()) {
    if (key == nullptr) {
      admission.headers.emplace_back("WWW-Authenticate", "Bearer");
      const bool has_one = !field(head, "authorization").empty() || !field(head, "x-api-key").empty();
      return refuse(401, has_one ? "unknown API key"
                                 : "an API key is required, as \"Authorization: Bearer KEY\" or \"x-api-key: KEY\"");
    }
    admission.cache_namespace = key->cache_namespace;
  }
  if (needs_key) admission.refusal = read_namespace(head, key != nullptr && key->names_namespaces, admission);
  if (admission.refusal) return admission;
  if (match.handler != nullptr) {
    admission.match = std::move(match);
    return admission;
  }
  admission.unknown_path = loggable_path(head.target.path);
  if (allowed.empty()) return refuse(404, "no such path");
  admission.headers.emplace_back("Allow", std::move(allowed));
  return refuse(405, "method not allowed; see the Allow header");
}

}  // namespace ibid::http
