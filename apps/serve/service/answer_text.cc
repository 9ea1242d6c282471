#include "apps/serve/service/answer_text.h"

#include <utility>

#include "templates/reply/protocol_messages.h"

namespace ibid::serve {
void AnswerText::push(std::string_view text, AnswerListener& listener) {
  n_bytes_ += text.size();
  parser_.feed(text, [&](const ReplyEvent& event) { tell(event, listener); });
}

void AnswerText::tell(const ReplyEvent& event, AnswerListener& listener) {
  switch (event.kind) {
    case ReplyEvent::Kind::kReasoning: return listener.reasoning(i_, event.text);
    case ReplyEvent::Kind::kContent: return listener.content(i_, event.text);
    case ReplyEvent::Kind::kCallBegin:
      told_.calls.resize(event.call);
      told_.calls.push_back({.id = event.id});
      give_call_ids(told_, seed_);
      return listener.tool_call(i_, event.call, told_.calls.back().id, event.name);
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
    answer.tool_calls.push_back({told_.calls[i].id, reply.calls[i].name, reply.calls[i].arguments});
  }
  return answer;
}

Json message_of(const Answer& answer) {
  ParsedReply reply{.reasoning = answer.reasoning, .content = answer.content};
  for (const ToolCall& call : answer.tool_calls) reply.calls.push_back({call.id, call.name, call.arguments});
  return protocol_message(reply);
}

}  // namespace ibid::serve
