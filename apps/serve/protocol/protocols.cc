#include "apps/serve/protocol/protocols.h"

#include <utility>

#include "apps/serve/protocol/endpoints.h"
#include "apps/serve/protocol/response_store.h"
#include "apps/serve/protocol/service_backend.h"
#include "apps/serve/protocol/session_store.h"

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
