#include "server/protocols.h"

#include <utility>

#include "server/protocol/endpoints.h"
#include "server/service/answer_service.h"
#include "server/service_backend.h"

namespace ibid::serve {

void add_protocol_routes(http::Router& router, AnswerService& service, ModelHost& models, Clock& clock,
                         std::string version, bool namespace_by_user) {
  add_endpoints(router, Site{.backend = make_service_backend(service, models),
                             .clock = clock,
                             .store = &service.store(),
                             .version = std::move(version),
                             .namespace_by_user = namespace_by_user,
                             .new_id = random_id});
}

}  // namespace ibid::serve
