#include "server/protocol/request_namespace.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "server/http/header_names.h"
#include "server/http/request_target.h"
#include "server/store/cache_namespace.h"

namespace ibid::serve {
namespace {

constexpr size_t kMaxUserBytes = 256;
constexpr std::string_view kUserHeader = "x-user-id";

// The one user whom all parts of a request name; empty: none.
class NamedUser {
 public:
  MaybeFault add(std::string_view name, const char* param) {
    const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; };
    if (name.size() > kMaxUserBytes || std::ranges::any_of(name, is_control) || !utf8_is_valid(name)) {
      return no_user(param);
    }
    if (name.empty() || name == name_) return {};
    if (!name_.empty()) return Fault{.message = "names another user than the rest of the request", .param = param};
    name_ = name;
    return {};
  }
  MaybeFault add(const Json* value, const char* param) {
    if (value == nullptr) return {};
    return value->is_string() ? add(value->get_ref<const std::string&>(), param) : no_user(param);
  }

  const std::string& name() const { return name_; }

 private:
  static Fault no_user(const char* param) {
    return {.message = "must be a text of at most " + std::to_string(kMaxUserBytes) +
                       " bytes, without control characters",
            .param = param};
  }

  std::string name_;
};

}  // namespace

MaybeFault read_namespace(const Site& site, const http::Request& source, const Json& body,
                          std::string& cache_namespace) {
  cache_namespace = source.key_namespace;
  if (!site.namespace_by_user) return {};
  NamedUser user;
  if (MaybeFault fault = user.add(member(body, "user"), "user")) return fault;
  if (style_of_path(source.path) == ErrorStyle::kAnthropic) {
    const Json* metadata = member(body, "metadata");
    const Json* id = metadata == nullptr ? nullptr : member(*metadata, "user_id");
    if (MaybeFault fault = user.add(id, "metadata.user_id")) return fault;
  }
  for (const std::string& value : http::query_values(source.query, "user")) {
    if (MaybeFault fault = user.add(value, "user")) return fault;
  }
  for (const auto& [name, value] : source.headers) {
    if (!http::same_name(name, kUserHeader)) continue;
    if (MaybeFault fault = user.add(http::trimmed(value), kUserHeader.data())) return fault;
  }
  if (!user.name().empty()) cache_namespace = user_namespace(source.key_namespace, user.name());
  return {};
}

MaybeFault read_namespace(const Site& site, const http::Request& source, std::string& cache_namespace) {
  Json body;
  if (site.namespace_by_user && !source.body.empty()) {
    if (MaybeFault fault = parse_body(source.body, body)) return fault;
  }
  return read_namespace(site, source, body, cache_namespace);
}

}  // namespace ibid::serve
