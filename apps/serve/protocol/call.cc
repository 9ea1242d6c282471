#include "apps/serve/protocol/call.h"

#include <algorithm>
#include <string>
#include <utility>

#include "apps/serve/protocol/answer_fields.h"
#include "apps/serve/protocol/sampler_fields.h"
#include "apps/serve/service/cache_namespace.h"

namespace ibid::serve {
namespace {

constexpr size_t kMaxUserBytes = 256;

// "user", or "metadata.user_id" as Anthropic's clients have it. Without one a request is the key's own.
MaybeFault read_user(const Json& body, AnswerRequest& request) {
  const Json* metadata = member(body, "metadata");
  const Json* user = member(body, "user");
  const bool is_plain = user != nullptr;
  if (!is_plain && metadata != nullptr && metadata->is_object()) user = member(*metadata, "user_id");
  if (user == nullptr || user->is_null()) return {};
  const std::string* name = user->is_string() ? &user->get_ref<const std::string&>() : nullptr;
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; };
  if (name == nullptr || name->size() > kMaxUserBytes || std::ranges::any_of(*name, is_control)) {
    return Fault{.message = "must be a text of at most " + std::to_string(kMaxUserBytes) +
                            " bytes, without control characters",
                 .param = is_plain ? "user" : "metadata.user_id"};
  }
  if (!name->empty()) request.cache_namespace = user_namespace(request.cache_namespace, *name);
  return {};
}

}  // namespace

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
  request.cache_namespace = source.cache_namespace;
  if (site.namespace_by_user) {
    if (MaybeFault fault = read_user(body, request)) return fault;
  }
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
