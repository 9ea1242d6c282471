// The beginning of reading a request of any protocol: its body as JSON, its namespace, the model that it means, and
// that model's own settings of sampling. The functions throw Fault.
//
// The namespace of a request decides what it stores, finds, lists and deletes, whose keys and values it reuses, and
// whose turn it takes in the queue. Every endpoint of every protocol asks read_namespace(), and nothing else. It is the
// namespace of the API key. Where the server tells users apart (Site::namespace_by_user), each user of a key has one
// within it, and a request that names no user belongs to the key itself. A request names its user by "user" in the body
// or in the query, by the header x-user-id, or in Anthropic's protocol by "metadata.user_id".
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "server/protocol/field.h"
#include "server/protocol/site.h"
#include "server/service/request.h"

namespace ibid::serve {

// Parses the body and begins `request` with it. Faults: parse_body()'s, a model that is no text.
Json begin_request(const Site& site, const http::Request& source, AnswerRequest& request);
// The same with a body that has been parsed.
void begin_parsed(const Site& site, const http::Request& source, const Json& body, AnswerRequest& request);

// Returns the namespace. body: of the request, parsed. Faults: a user that is no short text; several users.
std::string read_namespace(const Site& site, const http::Request& source, const Json& body);
// The same of a request that needs no body, and may have one. Further faults: those of parse_body().
std::string read_namespace(const Site& site, const http::Request& source);

// keep_alive: a number of seconds, or a duration as Go writes it ("5m", "1h30m"); below 0 is "for good".
void read_keep_alive(const Json& value, std::optional<std::chrono::milliseconds>& keep_alive);

// "model": for tables that describe an endpoint; begin_request() has read it.
template <typename Target>
constexpr Field<Target> model_field() {
  return {{"model", Shape::kText, "a name of /v1/models; empty or absent: the first of them", 0, 512}};
}

// "user": likewise; read_namespace() has read it.
template <typename Target>
constexpr Field<Target> user_field() {
  return ignored_field<Target>("user", "a namespace of its own, where the server has --namespace-by-user");
}

// "n" of protocols whose answers are one: replaces the shared row, which allows several.
template <typename Target>
constexpr Field<Target> one_answer_field() {
  return {{"n", Shape::kInteger, "a request has one answer", 1, 1}};
}

}  // namespace ibid::serve
