// Router: finds the handler for a method and a path. A value; immutable while a server uses it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/exchange.h"

namespace ibid::http {

// Values of the parameters in a path, in the order of the pattern: for "/v1/responses/{id}/input_items", the id.
using PathParts = std::vector<std::string>;
using Handler = std::function<void(ExchangePtr exchange, const PathParts& parts)>;

enum class Access {
  kKey,       // needs an API key if the server has keys; the handler runs on a worker thread
  kEverybody  // needs no key (health, the page); the handler runs on a network thread, so it may take only microseconds
};

class Router {
 public:
  // pattern: "/v1/models", "/v1/responses/{id}". A parameter in braces matches one or more characters without "/";
  // "{...}" at the end matches the rest, "/" included. Literal parts take precedence over parameters, even if the
  // literal pattern lacks the method. A handler of GET also answers HEAD, without the body. REQUIRES: no other handler
  // has the same method and pattern.
  void add(std::string_view method, std::string_view pattern, Handler handler, Access access = Access::kKey);

  struct Match {
    const Handler* handler = nullptr;  // nullptr: no route matches
    Access access = Access::kKey;
    PathParts parts = {};
    std::string_view pattern = {};  // pattern of the route, for logs, which must not contain the path of a client
    std::string allowed = {};       // methods that the path has: "GET, HEAD"; empty: no such path
  };
  // path: decoded. The result is valid as long as the router exists.
  Match find(std::string_view method, std::string_view path) const;

 private:
  struct Route {
    std::string method;
    std::string pattern;
    Handler handler;
    Access access;
  };
  std::vector<Route> routes_;
};

}  // namespace ibid::http
