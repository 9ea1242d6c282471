#include "apps/chat/chat_json.h"

#include <signal.h>

#include <cerrno>
#include <iostream>
#include <string>
#include <utility>

#include "apps/chat/turn_json.h"
#include "apps/chat/turn_lines.h"
#include "apps/command_line/command.h"
#include "apps/terminal/answer_writer.h"
#include "apps/terminal/interrupt.h"
#include "apps/terminal/remark.h"
#include "templates/message.h"

namespace ibid {

namespace {

size_t n_answers(const Json& messages) {
  size_t n = 0;
  for (const Json& message : messages) n += is_from(message, Role::kAssistant) ? 1 : 0;
  return n;
}

// Takes the next message: `first`, or a line of standard input that holds more than blanks. False: there is none.
bool next_message(std::optional<std::string>& first, std::string& message) {
  if (first) {
    message = *std::exchange(first, std::nullopt);
    return true;
  }
  while (std::getline(std::cin, message)) {
    if (!message.empty() && message.back() == '\r') message.pop_back();
    if (message.find_first_not_of(" \t") != std::string::npos) return true;
  }
  return false;
}

}  // namespace

Result<int> lead_chat_json(Talk& talk, const ChatJson& chat) {
  signal(SIGPIPE, SIG_IGN);
  AnswerWriter output;
  int exit_code = 0;
  const auto fail = [&](const Status& status) {
    output.write_line(json_to_string(error_json(status)));
    exit_code = report({status.code(), failure_text(status, AnswerPlace::kPipe)});
  };
  std::optional<std::string> first = chat.first;
  for (std::string line; output.error() == 0 && next_message(first, line);) {
    InterruptScope interrupt;
    TurnOptions options = chat.options(n_answers(talk.messages()));
    options.stop = interrupt.token();
    const CompletionIdentity identity = new_completion(chat.model);
    // What is wrong with the message, the turn itself says; what is wrong with the file, keeping the answer.
    if (Result<std::unique_ptr<Talk>> asked = talk.fork();
        asked.ok() && (*asked)->append(make_message(Role::kUser, line)).ok()) {
      (void)chat.keep_question(**asked);
    }
    const Result<Turn> turn = talk.send(line, options, {});
    if (turn.ok()) {
      const Json json = completion_json(identity, {&*turn, 1}, talk.messages(), nullptr);
      output.write_line(json_to_string(json));
      if (chat.verbose) remark("ibid: " + rates_line(*turn));
    } else {
      fail(turn.status());
    }
    if (const Status kept = chat.keep(); !kept.ok()) fail(kept);
    if (interrupt.interrupted()) return kInterruptedStatus;
  }
  if (output.error() == EPIPE) return kReaderGone;
  if (output.error() != 0) return cannot_write();
  return exit_code;
}

}  // namespace ibid
