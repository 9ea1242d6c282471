// The target of a request, as its first line has it: "/v1/models?x=1", "http://host/path", "*".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ibid::http {

struct RequestTarget {
  std::string path;       // decoded: valid UTF-8 without NUL, begins with "/"; "*" as it is
  std::string query;      // as it was sent, without the "?"
  std::string authority;  // of a target that is a whole URL: it goes before the Host header
};

// nullopt: a "%" without two hexadecimal digits, a NUL, text that is not UTF-8, or no target at all. Linear time.
std::optional<RequestTarget> parse_target(std::string_view target);

// The values of that name in a query ("a=1&b=c+d%20e"), decoded. A "%" without two hexadecimal digits is left as it is.
std::vector<std::string> query_values(std::string_view query, std::string_view name);

}  // namespace ibid::http
