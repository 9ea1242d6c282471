// Router: which handler a method and a path belong to. A value, immutable while a server uses it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/exchange.h"

namespace ibid::http {

// The parts of a path that a pattern leaves open, in order: "/v1/responses/{id}/input_items" gives the id.
using PathParts = std::vector<std::string>;
using Handler = std::function<void(ExchangePtr exchange, const PathParts& parts)>;

enum class Access {
  kKey,       // with an API key, where the server has some; the handler runs on one of the server's workers
  kEverybody  // health and the page; the handler runs on a thread of the network, and is done within microseconds
};

class Router {
 public:
  // pattern: "/v1/models", "/v1/responses/{id}"; a part in braces is one or more characters without "/". "{...}" at the
  // end takes the rest, "/" included. What is spelled out goes before what is open. A handler of GET also answers HEAD,
  // and its body is not sent. REQUIRES: no second handler for the same method and pattern.
  void add(std::string_view method, std::string_view pattern, Handler handler, Access access = Access::kKey);

  struct Match {
    const Handler* handler = nullptr;  // nullptr: none
    Access access = Access::kKey;
    PathParts parts = {};
    std::string_view pattern = {};  // as it was added: for logs, which hold no path that a client made up
    std::string allowed = {};       // the methods that the path has: "GET, HEAD"; empty: there is no such path
  };
  // path: decoded. The match is good as long as the router.
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
