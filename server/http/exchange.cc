#include "server/http/exchange.h"

#include "server/http/header_names.h"

namespace ibid::http {

std::string_view Request::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (same_name(key, name)) return value;
  }
  return {};
}

}  // namespace ibid::http
