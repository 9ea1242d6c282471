#include "server/protocols.h"

#include <utility>

#include "server/protocol/endpoints.h"
#include "server/protocol/response_store.h"
#include "server/protocol/session_store.h"
#include "server/service_backend.h"

namespace ibid::serve {

void add_protocol_routes(http::Router& router, AnswerService& service, ModelHost& models, Clock& clock,
                         std::string version, bool namespace_by_user) {
  add_endpoints(router, Site{.backend = make_service_backend(service, models),
                             .clock = clock,
                             .responses = std::make_shared<ResponseStore>(),
                             .sessions = std::make_shared<SessionStore>(),
                             .conversations =
                                 std::make_shared<SessionStore>(SessionStore::kDefaultBytes, "conversation"),
                             .version = std::move(version),
                             .namespace_by_user = namespace_by_user,
                             .new_id = random_id});
}

}  // namespace ibid::serve
