#include "apps/serve/protocol/prompt_fields.h"

#include <string>
#include <utility>

#include "apps/serve/protocol/field.h"

namespace ibid::serve {

MaybeFault check_text_body(const http::Request& request) {
  if (request.body.size() <= kMaxTextBodyBytes) return {};
  return Fault{.status = 413,
               .message = "the body has " + std::to_string(request.body.size()) + " bytes, at most " +
                          std::to_string(kMaxTextBodyBytes) + " are taken here",
               .code = "request_too_large"};
}

MaybeFault read_token_ids(const Json& list, Tokens& ids) {
  const FieldRule rule{.shape = Shape::kInteger, .least = 0, .most = 2147483647};
  if (list.size() > kMaxPromptIds) return Fault{.message = "has more ids than any context"};
  ids.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    if (MaybeFault fault = check_shape(rule, list[i])) {
      fault->param = "[" + std::to_string(i) + "]";
      return fault;
    }
    ids.push_back(static_cast<TokenId>(integer_of(list[i])));
  }
  return {};
}

MaybeFault read_prompt(const Json& value, AnswerRequest& request) {
  if (value.is_string()) {
    if (value.get_ref<const std::string&>().empty()) return Fault{.message = "must not be empty"};
    request.prompt = value.get<std::string>();
    return {};
  }
  if (!value.is_array()) return Fault{.message = "must be a text or a list of token ids", .code = "invalid_type"};
  if (value.empty()) return Fault{.message = "must not be empty"};
  if (value[0].is_string() || value[0].is_array()) {
    if (value.size() > 1) {
      return Fault{.message = "must be one prompt: several in one request are not supported",
                   .code = "unsupported_value"};
    }
    MaybeFault fault;
    // One level: a list in a list in a list is no prompt.
    if (value[0].is_array() && !value[0].empty() && value[0][0].is_structured()) {
      fault = Fault{.message = "must be a text or a list of token ids", .code = "invalid_type"};
    } else {
      fault = read_prompt(value[0], request);
    }
    if (fault) fault->param = "[0]" + fault->param;
    return fault;
  }
  Tokens ids;
  if (MaybeFault fault = read_token_ids(value, ids)) return fault;
  request.prompt = std::move(ids);
  return {};
}

}  // namespace ibid::serve
