#include "server/http/request_target.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "server/http/header_names.h"

namespace ibid::http {

namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char small = small_letter(c);
  return small >= 'a' && small <= 'f' ? small - 'a' + 10 : -1;
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    const int high = i + 1 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0) return std::nullopt;
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

// Takes "http://host:80" off the target; nullopt: there is a scheme and no host.
std::optional<std::string> take_authority(std::string_view& target) {
  const size_t scheme = target.starts_with("http://") ? 7 : target.starts_with("https://") ? 8 : 0;
  if (scheme == 0) return std::string();
  const size_t end = std::min(target.find_first_of("/?", scheme), target.size());
  if (end == scheme) return std::nullopt;
  std::string authority(target.substr(scheme, end - scheme));
  target.remove_prefix(end);
  return authority;
}

}  // namespace

std::optional<RequestTarget> parse_target(std::string_view target) {
  if (target == "*") return RequestTarget{.path = "*"};
  RequestTarget parsed;
  std::optional<std::string> authority = take_authority(target);
  if (!authority) return std::nullopt;
  parsed.authority = *std::move(authority);
  if (target.find('#') != std::string_view::npos) return std::nullopt;
  const size_t question = target.find('?');
  if (question != std::string_view::npos) parsed.query = target.substr(question + 1);
  std::string_view path = target.substr(0, question);
  if (path.empty() && !parsed.authority.empty()) path = "/";  // "http://host", RFC 9112, section 3.2.1
  if (!path.starts_with('/')) return std::nullopt;
  std::optional<std::string> decoded = percent_decoded(path);
  if (!decoded || decoded->find('\0') != std::string::npos || !utf8_is_valid(*decoded)) return std::nullopt;
  parsed.path = *std::move(decoded);
  return parsed;
}

std::vector<std::string> query_values(std::string_view query, std::string_view name) {
  std::vector<std::string> values;
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    const size_t equals = std::min(pair.find('='), pair.size());
    if (pair.substr(0, equals) != name) continue;
    std::string value(pair.substr(std::min(pair.size(), equals + 1)));
    std::replace(value.begin(), value.end(), '+', ' ');
    std::optional<std::string> decoded = percent_decoded(value);
    values.push_back(decoded ? *std::move(decoded) : std::move(value));
  }
  return values;
}

}  // namespace ibid::http
