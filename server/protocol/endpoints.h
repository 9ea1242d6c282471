// The list of all endpoints of all protocols: path, summary, fields of the body, and handler. The routes of the server,
// /openapi.json and the tests of bad input are generated from it.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "server/http/router.h"
#include "server/protocol/field.h"
#include "server/protocol/site.h"

namespace ibid::serve {

struct Endpoint {
  std::string_view protocol;  // "OpenAI", "Anthropic" ...
  std::string_view method;
  std::string_view pattern;  // path in the syntax of http::Router
  std::string_view summary;  // one sentence
  // Returns the fields of the body, in the order in which they are read; nullptr: the endpoint has no body.
  std::vector<FieldRule> (*fields)();
  void (*handle)(const Site& site, const http::ExchangePtr& exchange, const http::PathParts& parts);
  // Fields of the body's object "options"; nullptr: no such object (Ollama has one).
  std::vector<FieldRule> (*options)() = nullptr;
};

std::span<const Endpoint> endpoints();

// Adds a route for each endpoint; OpenAI's paths work without "/v1" as well, as in llama.cpp's server. Copies the site,
// which shares its backend.
void add_endpoints(http::Router& router, const Site& site);

// The OpenAPI 3.1 description of all endpoints, served at /openapi.json and generated from the parser's own rules.
// Refused fields are listed in "x-refused", with the values that are accepted, and not as properties. An optional field
// may also be null.
Json openapi_document();

}  // namespace ibid::serve
