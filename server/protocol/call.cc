#include "server/protocol/call.h"

#include <string>

#include "server/protocol/answer_fields.h"
#include "server/protocol/request_namespace.h"
#include "server/protocol/sampler_fields.h"

namespace ibid::serve {
MaybeFault begin_request(const Site& site, const http::Request& source, Json& body, AnswerRequest& request) {
  if (MaybeFault fault = parse_body(source.body, body)) return fault;
  return begin_parsed(site, source, body, request);
}

MaybeFault begin_parsed(const Site& site, const http::Request& source, const Json& body, AnswerRequest& request) {
  static constexpr Field<AnswerRequest> kModel[] = {
      {model_field<AnswerRequest>().rule, [](const Json& value, AnswerRequest& r) {
         r.model = value.get<std::string>();
         return MaybeFault();
       }}};
  if (MaybeFault fault = read_fields<AnswerRequest>(body, kModel, request)) return fault;
  if (MaybeFault fault = read_namespace(site, source, body, request.cache_namespace)) return fault;
  request.options = site.backend->default_options(request.model);
  return {};
}

MaybeFault read_answer_fields(const Json& body, AnswerRequest& request, bool has_messages) {
  if (MaybeFault fault = read_fields(body, sampler_fields(), request)) return fault;
  if (MaybeFault fault = read_fields(body, common_answer_fields(), request)) return fault;
  if (has_messages) {
    if (MaybeFault fault = read_fields(body, chat_answer_fields(), request)) return fault;
    if (MaybeFault fault = check_answer(request)) return fault;
  }
  return check_sampler(request);
}

}  // namespace ibid::serve
