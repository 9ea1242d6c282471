// The first steps of reading a request of any protocol: the body as JSON, the namespace, the model, and that model's
// default sampling options. The functions throw Fault.
//
// The namespace of a request decides which stored data the request can find, list and delete, whose KV it reuses, and
// in whose turn it waits in the queue. Every endpoint gets the namespace only from read_namespace(). It is the
// namespace of the API key, or the one within it that the header x-ibid-namespace names. If the server separates users
// (Site::namespace_by_user), each user has a namespace within that one. A request names its user by "user" in the body
// or the query, by the header x-user-id, or in Anthropic's protocol by "metadata.user_id". A request that names neither
// a user nor a namespace is refused then, or uses the key's own (Site::allows_no_user).
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>

#include "server/protocol/field.h"
#include "server/protocol/site.h"
#include "server/service/request.h"

namespace ibid::serve {

// Parses the body, and initialises `request` from it. Fields that have no effect by `rules`, those of the endpoint, are
// added to request.ignored. Faults: those of parse_body(); a model that is not a text.
Json begin_request(const Site& site, const http::Request& source, std::span<const FieldRule> rules,
                   AnswerRequest& request);

// Many clients send a fixed name. So if the server has one model, an unknown name means this model: clears `model` and
// reports the name in `ignored`. Does nothing if the server checks names (Site::checks_model_names).
void find_model(const Site& site, std::string& model, IgnoredParts& ignored);

// Removes lines at the beginning of the conversation's system message that clients add for their own service and change
// with every request ("x-anthropic-billing-header: ..."): they would make every prompt differ from its start, so that
// nothing after them could be reused. docs/serve.md lists them.
void drop_client_lines(const Site& site, AnswerRequest& request);

// Returns the namespace of a request. Faults: the user is not a short text; the request names several different users,
// or none where one is needed.
std::string read_namespace(const Site& site, const http::Request& source, const Json& body);
// Returns the namespace of a request whose body is not parsed yet and may be empty. Faults: those of parse_body(), and
// of the other read_namespace().
std::string read_namespace(const Site& site, const http::Request& source);

// Reads keep_alive: a number of seconds, or a duration in Go's notation ("5m", "1h30m"); negative: forever.
void read_keep_alive(const Json& value, std::optional<std::chrono::milliseconds>& keep_alive);

// Row for "model" in the tables that describe endpoints. It reads nothing, because begin_request() has read the field.
template <typename Target>
constexpr Field<Target> model_field() {
  return {{"model", Shape::kText, "a model name listed by /v1/models; empty or absent: the first one", 0, 512}};
}

// Row for "user". It reads nothing, because read_namespace() has read the field.
template <typename Target>
constexpr Field<Target> user_field() {
  return ignored_field<Target>("user", "selects a namespace of its own if the server runs with --namespace-by-user");
}

// Row for "n" of a protocol whose requests have one answer. It replaces the shared row for "n", which allows several
// answers.
template <typename Target>
constexpr Field<Target> one_answer_field() {
  return {{"n", Shape::kInteger, "only one answer per request is supported", 1, 1}};
}

}  // namespace ibid::serve
