// What a chat template is rendered with, beside the messages.
#pragma once

#include <string>

#include "base/json_limits.h"

namespace ibid {

// The variables of a render other than messages: add_generation_prompt, tools, documents, bos_token,
// eos_token, enable_thinking ... as a JSON object; tools and documents are None where they are not given.
// They come before ChatTemplate::default_variables(). `now` (ISO 8601) is the clock of strftime_now: frozen
// per conversation by the caller. Text of variables named *_token or *_tokens is the template's; that of all
// others is input, as it may come from a request.
struct TemplateVariables {
  Json values = Json::object();
  std::string now = "2026-01-31T12:00:00";
};

}  // namespace ibid
