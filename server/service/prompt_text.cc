#include "server/service/prompt_text.h"

#include <utility>

#include "runtime/prompt/plain_prompt.h"
#include "templates/chat_template.h"
#include "templates/reply/protocol_messages.h"

namespace ibid::serve {
namespace {

// What a value takes as text, about, without writing it.
size_t bytes_of_json(const Json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>().size();
  size_t n = 8;
  if (value.is_structured()) {
    for (const Json& part : value) n += bytes_of_json(part);
  }
  return n;
}

}  // namespace

Json variables_for(const AnswerRequest& request) {
  Json variables = request.variables.is_object() ? request.variables : Json::object();
  if (!request.tools.is_null() && !request.tools.empty()) variables["tools"] = request.tools;
  return variables;
}

Result<MarkedText> prompt_text(const std::shared_ptr<Engine>& engine, const AnswerRequest& request) {
  if (request.prompt) {
    if (const auto* text = std::get_if<std::string>(&*request.prompt)) return MarkedText(*text, TextOrigin::kTemplate);
    return MarkedText(engine->tokenizer().decode(std::get<Tokens>(*request.prompt)), TextOrigin::kTemplate);
  }
  TRY(engine->check_answers());
  const ChatTemplate* chat_template = engine->chat_template();
  if (chat_template == nullptr) return {ErrorCode::kUnsupported, engine->name() + " has no chat template"};
  TemplateVariables variables;
  variables.values = chat_template->default_variables();
  variables.values.update(variables_for(request));
  variables.values["add_generation_prompt"] = true;
  const Json messages = messages_for_template(request.messages, engine->reply_format());
  return chat_template->render(messages, variables);
}

Result<size_t> count_prompt_ids(const std::shared_ptr<Engine>& engine, const AnswerRequest& request) {
  if (request.prompt) {
    const auto* text = std::get_if<std::string>(&*request.prompt);
    const Json message = text != nullptr ? plain_message(*text) : plain_message(std::get<Tokens>(*request.prompt));
    TRY_ASSIGN(const PromptDelta plan, plan_plain_prompt(engine->tokenizer(), Json::array({message}), Transcript()));
    return plan.n_prompt;
  }
  TRY_ASSIGN(const MarkedText text, prompt_text(engine, request));
  return engine->tokenizer().encode_marked(text).size();
}

size_t bytes_of_prompt(const AnswerRequest& request) {
  if (!request.prompt) return bytes_of_json(request.messages) + bytes_of_json(request.tools);
  if (const auto* text = std::get_if<std::string>(&*request.prompt)) return text->size();
  return std::get<Tokens>(*request.prompt).size() * sizeof(TokenId);
}

}  // namespace ibid::serve
