#include "server/http/client_exchange.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace ibid::http {

namespace {

// A method that a log may name; any other is a word that a client made up.
bool is_known_method(std::string_view method) {
  constexpr std::string_view kMethods[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};
  return std::find(std::begin(kMethods), std::end(kMethods), method) != std::end(kMethods);
}

}  // namespace

Request make_request(uint64_t id, RequestReader& reader, const Admission& admission, const std::string& client) {
  const RequestHead& head = reader.head();
  Request request;
  request.id = id;
  request.method = head.method;
  request.path = head.target.path;
  request.query = head.target.query;
  request.headers = head.headers;
  request.body = reader.take_body();
  request.key_namespace = admission.cache_namespace;
  request.client = client;
  return request;
}

ExchangeRecord make_record(uint64_t id, const RequestReader& reader, const Admission& admission,
                           const std::string& client) {
  const RequestHead& head = reader.head();
  ExchangeRecord record{.id = id, .client = client};
  record.method = is_known_method(head.method) ? head.method : "other";
  record.pattern = admission.match.pattern;
  record.n_bytes_in = reader.n_body_bytes();
  return record;
}

}  // namespace ibid::http
