// POST /v1/messages and /v1/messages/count_tokens (Anthropic's Messages API).
//
// usage: input_tokens are those that were read now, cache_read_input_tokens those that were not; nothing is charged for
// keeping them, so cache_creation_input_tokens is 0.
#pragma once

#include <string>

#include "server/protocol/answer_json.h"
#include "server/protocol/reply.h"
#include "server/protocol/site.h"

namespace ibid::serve {

Json anthropic_usage(const TokenCounts& counts);
// "end_turn", "max_tokens", "stop_sequence", "tool_use".
std::string anthropic_stop_reason(const Answer& answer);
// A message without content, as streams begin with it.
Json anthropic_message(const std::string& id, const std::string& model);

void post_messages(const Site& site, const http::ExchangePtr& exchange);
void post_count_tokens(const Site& site, const http::ExchangePtr& exchange);

}  // namespace ibid::serve
