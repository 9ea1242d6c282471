// The first steps of reading a request of any protocol: the body as JSON, the namespace, the model, and that model's
// default sampling options. The functions throw Fault.
//
// The namespace of a request decides what it stores, finds, lists and deletes, whose keys and values it reuses, and for
// whose turn it waits in the queue. Every endpoint gets it only from read_namespace(). It is the namespace of the API
// key. If the server separates users (Site::namespace_by_user), each user of a key has a namespace within it, and a
// request that names no user uses that of the key. A request names its user by "user" in the body or the query, by the
// header x-user-id, or in Anthropic's protocol by "metadata.user_id".
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "server/protocol/field.h"
#include "server/protocol/site.h"
#include "server/service/request.h"

namespace ibid::serve {

// Parses the body and initialises `request` from it. Faults: parse_body()'s; a model that is not a text.
Json begin_request(const Site& site, const http::Request& source, AnswerRequest& request);
// The same with a parsed body.
void begin_parsed(const Site& site, const http::Request& source, const Json& body, AnswerRequest& request);

// Returns the namespace. body: the parsed body. Faults: a user that is not a short text; several different users.
std::string read_namespace(const Site& site, const http::Request& source, const Json& body);
// The same for a request whose body is optional. Further faults: those of parse_body().
std::string read_namespace(const Site& site, const http::Request& source);

// keep_alive: a number of seconds, or a duration in Go's notation ("5m", "1h30m"); negative: forever.
void read_keep_alive(const Json& value, std::optional<std::chrono::milliseconds>& keep_alive);

// "model", for the tables that describe endpoints; begin_request() has read it.
template <typename Target>
constexpr Field<Target> model_field() {
  return {{"model", Shape::kText, "a model name listed by /v1/models; empty or absent: the first one", 0, 512}};
}

// "user", likewise; read_namespace() has read it.
template <typename Target>
constexpr Field<Target> user_field() {
  return ignored_field<Target>("user", "selects a namespace of its own if the server runs with --namespace-by-user");
}

// Field "n" of protocols with one answer per request. The common definition allows several.
template <typename Target>
constexpr Field<Target> one_answer_field() {
  return {{"n", Shape::kInteger, "only one answer per request is supported", 1, 1}};
}

}  // namespace ibid::serve
