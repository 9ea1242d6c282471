// A conversation for programs: a line of standard input is a message, and a line of standard output is its answer as
// JSON (turn_json.h), or an error as JSON; it goes on with the next message then.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "apps/chat/talk.h"
#include "base/result.h"

namespace ibid {

struct ChatJson {
  std::string model;  // its name
  // The options of the answer to question number `turn`, counted from 0.
  std::function<TurnOptions(size_t turn)> options;
  // Keep the conversation, where it is kept: with a question that waits for its answer, and after the answer.
  std::function<Status(const Talk& asked)> keep_question;
  std::function<Status()> keep;
  std::optional<std::string> first;  // a message before those of standard input
  bool verbose = false;              // how fast each answer was goes to standard error
};

// To the end of standard input. The exit status: 0; 1 when anything failed; kInterruptedStatus; kReaderGone.
Result<int> lead_chat_json(Talk& talk, const ChatJson& chat);

}  // namespace ibid
