#include "grammar/uri_reference.h"

#include <cstddef>
#include <vector>

namespace ibid {
namespace {

// Each with the character that sets it off: "http:", "//host", "/a/b", "?q", "#f"; empty: it is not there.
struct UriParts {
  std::string_view scheme, authority, path, query, fragment;
};

UriParts parts_of(std::string_view uri) {
  UriParts out;
  if (const size_t at = uri.find('#'); at != uri.npos) out.fragment = uri.substr(at), uri = uri.substr(0, at);
  if (const size_t at = uri.find('?'); at != uri.npos) out.query = uri.substr(at), uri = uri.substr(0, at);
  if (const size_t at = uri.find_first_of(":/"); at != uri.npos && at > 0 && uri[at] == ':') {
    out.scheme = uri.substr(0, at + 1);
    uri = uri.substr(at + 1);
  }
  if (uri.starts_with("//")) {
    out.authority = uri.substr(0, uri.find('/', 2));
    uri = uri.substr(out.authority.size());
  }
  out.path = uri;
  return out;
}

// Without "." and "..".
std::string plain_path(std::string_view path) {
  std::vector<std::string_view> kept;
  const bool absolute = path.starts_with('/');
  bool open = path.ends_with("/.") || path.ends_with("/..") || path == "." || path == "..";
  for (size_t begin = absolute ? 1 : 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    begin = end + 1;
    if (part == ".." && !kept.empty()) kept.pop_back();
    if (part != "." && part != "..") kept.push_back(part);
  }
  std::string out = absolute ? "/" : "";
  for (size_t i = 0; i < kept.size(); ++i) {
    if (i > 0) out += '/';
    out += kept[i];
  }
  return open && !out.ends_with('/') ? out + '/' : out;
}

}  // namespace

std::string resolve_uri(std::string_view base, std::string_view reference) {
  const UriParts from = parts_of(base);
  UriParts to = parts_of(reference);
  std::string path(to.path);
  if (!to.scheme.empty()) return std::string(reference);
  to.scheme = from.scheme;
  if (to.authority.empty()) {
    to.authority = from.authority;
    if (path.empty()) {
      path = from.path;
      if (to.query.empty()) to.query = from.query;
    } else if (!path.starts_with('/')) {
      const size_t slash = from.path.rfind('/');
      const std::string folder = slash != from.path.npos    ? std::string(from.path.substr(0, slash + 1))
                                 : !from.authority.empty() ? "/"
                                                            : "";
      path = plain_path(folder + path);
    } else {
      path = plain_path(path);
    }
  }
  std::string out;
  for (const std::string_view part : {to.scheme, to.authority, std::string_view(path), to.query, to.fragment}) {
    out += part;
  }
  return out;
}

}  // namespace ibid
