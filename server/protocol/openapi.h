// The description of every endpoint as OpenAPI 3.1 (docs/openapi.json), made of endpoints(): what it says of a field is
// what the parser reads by. Served at /openapi.json.
#pragma once

#include <string_view>

#include "server/protocol/site.h"

namespace ibid::serve {

// Fields that are refused are no properties; "x-refused" lists them. A field that may be left out may also be null.
Json openapi_document();

void get_openapi(const Site& site, const http::ExchangePtr& exchange);

}  // namespace ibid::serve
