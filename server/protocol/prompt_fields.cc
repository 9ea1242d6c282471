#include "server/protocol/prompt_fields.h"

#include <string>
#include <utility>

#include "server/protocol/field.h"

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

namespace {

MaybeFault read_one(const Json& value, Prompt& prompt) {
  if (value.is_string()) {
    if (value.get_ref<const std::string&>().empty()) return Fault{.message = "must not be empty"};
    prompt = value.get<std::string>();
    return {};
  }
  // One level: a list in a list in a list is no prompt.
  const bool is_list = value.is_array() && (value.empty() || !value[0].is_structured());
  if (!is_list) return Fault{.message = "must be a text or a list of token ids", .code = "invalid_type"};
  if (value.empty()) return Fault{.message = "must not be empty"};
  return read_token_ids(value, prompt.emplace<Tokens>());
}

}  // namespace

MaybeFault read_prompts(const Json& value, std::vector<Prompt>& prompts) {
  const bool is_list = value.is_array() && !value.empty() && (value[0].is_string() || value[0].is_array());
  if (!is_list) return read_one(value, prompts.emplace_back());
  if (value.size() > kMaxPrompts) {
    return Fault{.message = "has " + std::to_string(value.size()) + " prompts, at most " +
                            std::to_string(kMaxPrompts) + " are taken in one request"};
  }
  for (size_t i = 0; i < value.size(); ++i) {
    if (MaybeFault fault = read_one(value[i], prompts.emplace_back())) {
      fault->param = "[" + std::to_string(i) + "]" + fault->param;
      return fault;
    }
  }
  return {};
}

MaybeFault read_prompt(const Json& value, AnswerRequest& request) {
  std::vector<Prompt> prompts;
  if (MaybeFault fault = read_prompts(value, prompts)) return fault;
  if (prompts.size() > 1) {
    return Fault{.message = "must be one prompt: several in one request are not supported here",
                 .code = "unsupported_value"};
  }
  request.prompt = std::move(prompts.front());
  return {};
}

}  // namespace ibid::serve
