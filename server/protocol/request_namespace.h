// The namespace of a request: what it stores, finds, lists and deletes, whose keys and values it reuses, and whose turn
// it takes in the queue. Every endpoint of every protocol asks here, and nowhere else.
//
// It is the namespace of the API key. Where the server tells users apart (Site::namespace_by_user), each user of a key
// has one of their own within it, and a request that names no user belongs to the key itself. A request names its user
// by "user" in the body or in the query, by the header x-user-id, or in Anthropic's protocol by "metadata.user_id".
#pragma once

#include <string>

#include "server/protocol/field.h"
#include "server/protocol/site.h"

namespace ibid::serve {

// Sets `cache_namespace`. body: of the request, parsed. Faults: a user that is no short text; several users.
MaybeFault read_namespace(const Site& site, const http::Request& source, const Json& body,
                          std::string& cache_namespace);
// The same of a request that needs no body, and may have one. Further faults: those of parse_body().
MaybeFault read_namespace(const Site& site, const http::Request& source, std::string& cache_namespace);

// "user": for tables that describe an endpoint; read_namespace() has read it.
template <typename Target>
constexpr Field<Target> user_field() {
  return ignored_field<Target>("user", "a namespace of its own, where the server has --namespace-by-user");
}

}  // namespace ibid::serve
