// What reading a request of any protocol begins with: its body as JSON, whose it is, which model it means, and how that
// model's answers are sampled where the request says nothing.
#pragma once

#include "server/protocol/field.h"
#include "server/protocol/site.h"
#include "server/service/request.h"

namespace ibid::serve {

// Parses the body into `body` and begins `request` with it. Faults: parse_body()'s, a model that is no text.
MaybeFault begin_request(const Site& site, const http::Request& source, Json& body, AnswerRequest& request);
// The same with a body that has been parsed.
MaybeFault begin_parsed(const Site& site, const http::Request& source, const Json& body, AnswerRequest& request);

// "model": for tables that describe an endpoint; begin_request() has read it.
template <typename Target>
constexpr Field<Target> model_field() {
  return {{"model", Shape::kText, "a name of /v1/models; empty or absent: the first of them", 0, 512}};
}

// "n" of protocols whose answers are one: in the place of the shared row, which allows several.
template <typename Target>
constexpr Field<Target> one_answer_field() {
  return {{"n", Shape::kInteger, "a request has one answer", 1, 1}};
}

// Reads the rows of all tables into the request, then checks what they say together. Faults: the first of them.
MaybeFault read_answer_fields(const Json& body, AnswerRequest& request, bool has_messages);

}  // namespace ibid::serve
