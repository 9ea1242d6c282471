// What a server adds to its routes so that it speaks all protocols.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "server/http/router.h"

namespace ibid::serve {

class AnswerService;
class ModelHost;

// Adds every endpoint of endpoints.h. REQUIRES: service, models and clock outlive the router and every exchange.
// version: of the program, for protocols that ask. namespace_by_user: as Site has it.
void add_protocol_routes(http::Router& router, AnswerService& service, ModelHost& models, Clock& clock,
                         std::string version, bool namespace_by_user = false);

}  // namespace ibid::serve
