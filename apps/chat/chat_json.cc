#include "apps/chat/chat_json.h"

#include <signal.h>

#include <cerrno>
#include <iostream>
#include <string>

#include "apps/chat/interrupt.h"
#include "apps/chat/turn_json.h"
#include "apps/command.h"
#include "apps/terminal/answer_writer.h"

namespace ibid {

namespace {

size_t n_answers(const Json& messages) {
  size_t n = 0;
  for (const Json& message : messages) n += message.value("role", Json()) == "assistant" ? 1 : 0;
  return n;
}

}  // namespace

Result<int> lead_chat_json(ChatSession& session, const ChatJson& chat) {
  signal(SIGPIPE, SIG_IGN);
  AnswerWriter output;
  int exit_code = 0;
  const auto fail = [&](const Status& status) {
    output.write_line(json_to_string(error_json(status)));
    exit_code = report(status);
  };
  for (std::string line; output.error() == 0 && std::getline(std::cin, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    InterruptScope interrupt;
    TurnOptions options = chat.options(n_answers(session.messages()));
    options.stop = interrupt.token();
    const CompletionIdentity identity = new_completion(*session.engine());
    const Result<Turn> turn = session.send(line, options);
    if (turn.ok()) {
      const Json json = completion_json(identity, {&*turn, 1}, session.messages(), session.engine()->tokenizer());
      output.write_line(json_to_string(json));
      if (const Status kept = chat.keep(); !kept.ok()) fail(kept);
    } else {
      fail(turn.status());
    }
    if (interrupt.interrupted()) return kInterrupted;
  }
  if (output.error() == EPIPE) return kReaderGone;
  if (output.error() != 0) return cannot_write();
  return exit_code;
}

}  // namespace ibid
