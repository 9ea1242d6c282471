#include "apps/serve/service/answer_text.h"

#include <random>
#include <utility>

#include "templates/message.h"

namespace ibid::serve {
namespace {

// Nine letters and digits, because templates of Mistral refuse other ids.
std::string new_call_id() {
  constexpr std::string_view kCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  std::random_device random;
  std::string id;
  for (int i = 0; i < 9; ++i) id += kCharacters[random() % kCharacters.size()];
  return id;
}

}  // namespace

void AnswerText::push(std::string_view text, AnswerListener& listener) {
  n_bytes_ += text.size();
  parser_.feed(text, [&](const ReplyEvent& event) { tell(event, listener); });
}

void AnswerText::tell(const ReplyEvent& event, AnswerListener& listener) {
  switch (event.kind) {
    case ReplyEvent::Kind::kReasoning: return listener.reasoning(i_, event.text);
    case ReplyEvent::Kind::kContent: return listener.content(i_, event.text);
    case ReplyEvent::Kind::kCallBegin:
      call_ids_.resize(event.call);
      call_ids_.push_back(event.id.empty() ? new_call_id() : event.id);
      return listener.tool_call(i_, event.call, call_ids_.back(), event.name);
    case ReplyEvent::Kind::kArguments: return listener.tool_arguments(i_, event.call, event.text);
    case ReplyEvent::Kind::kCallEnd:
    case ReplyEvent::Kind::kCallBroken: return;  // calls are told when they are complete
  }
}

Answer AnswerText::finish(Turn turn, AnswerListener& listener) {
  if (turn.text.size() > n_bytes_) push(std::string_view(turn.text).substr(n_bytes_), listener);
  parser_.finish([&](const ReplyEvent& event) { tell(event, listener); });
  const ParsedReply& reply = parser_.reply();
  Answer answer{.content = reply.content, .reasoning = reply.reasoning, .tool_calls = {}, .turn = std::move(turn)};
  for (size_t i = 0; i < reply.calls.size(); ++i) {
    answer.tool_calls.push_back({call_ids_[i], reply.calls[i].name, reply.calls[i].arguments});
  }
  return answer;
}

Json message_of(const Answer& answer) {
  Json message = make_message(Role::kAssistant, answer.content);
  if (!answer.reasoning.empty()) message["reasoning_content"] = answer.reasoning;
  if (answer.tool_calls.empty()) return message;
  Json calls = Json::array();
  for (const ToolCall& call : answer.tool_calls) {
    Json function = Json::object();
    function["name"] = call.name;
    function["arguments"] = call.arguments;
    Json one = Json::object();
    one["id"] = call.id;
    one["type"] = "function";
    one["function"] = std::move(function);
    calls.push_back(std::move(one));
  }
  message["tool_calls"] = std::move(calls);
  return message;
}

}  // namespace ibid::serve
