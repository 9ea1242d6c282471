// Lists of items of the Responses API (OpenAI), as clients page through them.
#pragma once

#include "server/http/exchange.h"
#include "server/protocol/fault.h"

namespace ibid::serve {

// Answers with a page of `items`, which stand in their order and have ids: {"object": "list", "data", "first_id",
// "last_id", "has_more"}. The query of the request says which: limit (1 to 100, 20 where it is absent), order ("desc",
// the newest first, where it is absent, or "asc"), after (the id of an item: those behind it in that order).
void respond_items(http::Exchange& exchange, Json items);

}  // namespace ibid::serve
