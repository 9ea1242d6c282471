#include "server/http/router.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"

namespace ibid::http {

namespace {

constexpr std::string_view kRest = "{...}";

bool is_open(std::string_view part) { return part.size() > 2 && part.front() == '{' && part.back() == '}'; }

// Removes the first part from `path`, with the "/" after it, and returns it.
std::string_view take_part(std::string_view& path) {
  const size_t end = path.find('/');
  const std::string_view part = path.substr(0, end);
  path.remove_prefix(end == std::string_view::npos ? path.size() : end + 1);
  return part;
}

// Returns the parameters of a path that matches the pattern; nullopt if the path does not match.
std::optional<PathParts> fit(std::string_view pattern, std::string_view path) {
  PathParts parts;
  while (true) {
    if (pattern == kRest && !path.empty()) {
      parts.emplace_back(path);
      return parts;
    }
    const bool last_of_pattern = pattern.find('/') == std::string_view::npos;
    if (last_of_pattern != (path.find('/') == std::string_view::npos)) return std::nullopt;
    const std::string_view wanted = take_part(pattern);
    const std::string_view found = take_part(path);
    if (is_open(wanted)) {
      if (found.empty()) return std::nullopt;
      parts.emplace_back(found);
    } else if (wanted != found) {
      return std::nullopt;
    }
    if (last_of_pattern) return parts;
  }
}

// True if `pattern` is more specific than `other` at the first part in which they differ.
bool says_more(std::string_view pattern, std::string_view other) {
  while (!pattern.empty() && !other.empty()) {
    const std::string_view a = take_part(pattern);
    const std::string_view b = take_part(other);
    const int open_a = a == kRest ? 2 : is_open(a) ? 1 : 0;
    const int open_b = b == kRest ? 2 : is_open(b) ? 1 : 0;
    if (open_a != open_b) return open_a < open_b;
  }
  return false;
}

void add_method(std::string& allowed, std::string_view method) {
  if (!allowed.empty()) allowed += ", ";
  allowed += method;
}

}  // namespace

void Router::add(std::string_view method, std::string_view pattern, Handler handler, Access access) {
  CHECK(pattern.starts_with('/')) << pattern;
  for (const Route& route : routes_) {
    CHECK(route.method != method || route.pattern != pattern) << "two handlers for " << method << " " << pattern;
  }
  routes_.push_back({std::string(method), std::string(pattern), std::move(handler), access});
}

// If several patterns match, only the most specific one decides which methods the path has:
// "/v1/responses/input_tokens", not "/v1/responses/{id}".
Router::Match Router::find(std::string_view method, std::string_view path) const {
  Match match;
  for (const Route& route : routes_) {
    if (!match.pattern.empty() && !says_more(route.pattern, match.pattern)) continue;
    if (fit(route.pattern, path)) match.pattern = route.pattern;
  }
  bool has_get = false, has_head = false;
  for (const Route& route : routes_) {
    if (route.pattern != match.pattern) continue;
    has_get |= route.method == "GET";
    has_head |= route.method == "HEAD";
    add_method(match.allowed, route.method);
    if (route.method != method && (method != "HEAD" || route.method != "GET" || match.handler != nullptr)) continue;
    match.handler = &route.handler;
    match.access = route.access;
    match.parts = *fit(route.pattern, path);
  }
  if (has_get && !has_head) add_method(match.allowed, "HEAD");
  if (match.handler == nullptr) match.pattern = {};
  return match;
}

}  // namespace ibid::http
