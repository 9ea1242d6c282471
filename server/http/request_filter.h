// RequestFilter: checks the head of a request and finds its handler. Checks, in this order: the name in the Host header
// (against DNS rebinding: a foreign site may let its own name resolve to this machine), the Origin header, the API key,
// the router. A value: no sockets, no locks, thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/sha256.h"
#include "server/http/api_keys.h"
#include "server/http/request_reader.h"
#include "server/http/router.h"

namespace ibid::http {

struct FilterRules {
  std::vector<std::string> allowed_hosts = {};  // names allowed besides localhost and IP addresses; {"*"}: any name
  // Origins allowed besides the server's own and localhost with the same port; {"*"}: any origin.
  std::vector<std::string> allowed_origins = {};
  uint16_t port = 0;  // the server's port; 0: no TCP
};

// The keys of a server, as SHA-256 digests. Immutable.
class KeyRing {
 public:
  explicit KeyRing(const std::vector<ApiKey>& keys);

  bool empty() const { return entries_.empty(); }
  struct Entry {
    Sha256Digest digest;
    std::string cache_namespace;
    bool names_namespaces;
  };
  // Returns the key in the request ("Authorization: Bearer", "x-api-key"); nullptr if there is no valid key. Always
  // compares all bytes of all keys, so that the time of the search reveals nothing about the keys.
  const Entry* find(const Headers& headers) const;

 private:
  const Entry* find_key(std::string_view key) const;

  std::vector<Entry> entries_;
};

// The result of the checks.
struct Admission {
  Refusal refusal = {};      // reason for which the request is refused; empty: not refused
  int status = 0;            // status of a response without a body (to OPTIONS); 0: no such response
  Headers headers = {};      // headers that are added to any response: CORS, Allow
  Router::Match match = {};  // handler of the request, if neither refusal nor status is set
  // Path of a request that no route matches, for the log: its first 128 characters, all but letters, digits and "-_./~"
  // replaced by "?". Empty if a key is missing, because the sender is unknown then.
  std::string unknown_path = {};
  std::string cache_namespace = {};
  std::string named_namespace = {};  // value of the header x-ibid-namespace, if the key allows the header
};

class RequestFilter {
 public:
  RequestFilter(FilterRules rules, const std::vector<ApiKey>& keys, Router router);

  // is_local: the request came over a Unix socket, which browsers cannot use, so any Host is allowed. The only texts
  // of the client in the result are unknown_path and CORS headers, which repeat the browser's Origin and header names.
  Admission admit(const RequestHead& head, bool is_local) const;

 private:
  bool may_be_called(std::string_view host) const;
  bool may_ask(std::string_view origin, std::string_view host) const;
  void add_cors(const RequestHead& head, std::string_view origin, Admission& admission) const;

  FilterRules rules_;
  KeyRing keys_;
  Router router_;
};

}  // namespace ibid::http
