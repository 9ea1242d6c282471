// Door: who may pass with a request's head, and where it leads. It asks, in this order: the name in Host (a page of
// another site may point a name of its own at this machine, "DNS rebinding"), the Origin that browsers send, the API
// key, the router. It is a value: no sockets, no locks, any number of threads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/api_keys.h"
#include "server/http/request_reader.h"
#include "server/http/router.h"

namespace ibid::http {

struct DoorRules {
  std::vector<std::string> allowed_hosts = {};    // besides localhost and addresses; {"*"}: any
  std::vector<std::string> allowed_origins = {};  // besides the server's own and localhost of its port; {"*"}: any
  uint16_t port = 0;                              // the server's own; 0: it has none
};

// What becomes of a request.
struct Admission {
  Refusal refusal = {};      // refused, unless this is empty
  int status = 0;            // answered here, without a body: 204 for OPTIONS
  Headers headers = {};      // for the response, whatever it is: CORS, Allow
  Router::Match match = {};  // else: who answers
  std::string cache_namespace = {};
};

class RequestFilter {
 public:
  RequestFilter(DoorRules rules, std::vector<ApiKey> keys, Router router);

  // is_local: over a Unix socket, whose clients are no browsers that a page could use. The Host may be any there.
  // Bytes of a client are in the headers of the result where a browser wants its own Origin and names of headers back,
  // and nowhere else.
  Admission admit(const RequestHead& head, bool is_local) const;

 private:
  bool may_be_called(std::string_view host) const;
  bool may_ask(std::string_view origin, std::string_view host) const;
  void add_cors(const RequestHead& head, std::string_view origin, Admission& admission) const;

  DoorRules rules_;
  KeyRing keys_;
  Router router_;
};

}  // namespace ibid::http
