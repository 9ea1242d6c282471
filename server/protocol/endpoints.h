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
  std::string_view pattern;  // in the syntax of http::Router
  std::string_view summary;  // one sentence
  // The fields of its body, in the order in which they are read; nullptr: it has no body.
  std::vector<FieldRule> (*fields)();
  void (*handle)(const Site& site, const http::ExchangePtr& exchange, const http::PathParts& parts);
  std::vector<FieldRule> (*options)() = nullptr;  // of the object "options" in its body; nullptr: none (Ollama has one)
};

std::span<const Endpoint> endpoints();

// Adds a route for each of them. Copies the site, which shares its backend.
void add_endpoints(http::Router& router, const Site& site);

// The OpenAPI 3.1 description of all endpoints, served at /openapi.json and generated from the parser's own rules.
// Refused fields are listed in "x-refused" and not as properties. An optional field may also be null.
Json openapi_document();

}  // namespace ibid::serve
