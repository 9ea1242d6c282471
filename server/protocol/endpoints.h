// Every endpoint of every protocol, once: its path, what it is for, the fields that its body may have, and who answers.
// The routes of the server, /openapi.json and the tests of bad input are made of this list.
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
  std::string_view pattern;  // as http::Router has it
  std::string_view summary;  // a sentence
  // The fields of its body, in the order in which they are read; nullptr: it has no body.
  std::vector<FieldRule> (*fields)();
  void (*handle)(const Site& site, const http::ExchangePtr& exchange, const http::PathParts& parts);
  std::vector<FieldRule> (*options)() = nullptr;  // of the object "options" in its body, where it has one (Ollama)
};

std::span<const Endpoint> endpoints();

// Adds a route for each of them. The site is copied and must outlive nothing; its backend is held.
void add_endpoints(http::Router& router, const Site& site);

// The description of every endpoint as OpenAPI 3.1, which is served at /openapi.json: what it says of a field is what
// the parser reads by. Fields that are refused are no properties; "x-refused" lists them. A field that may be left out
// may also be null.
Json openapi_document();

}  // namespace ibid::serve
