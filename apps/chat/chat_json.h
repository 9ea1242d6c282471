// A conversation for programs: a line of standard input is a message, and a line of standard output is its answer as
// JSON (turn_json.h), or an error as JSON; it goes on with the next message then.
#pragma once

#include <cstddef>
#include <functional>

#include "base/result.h"
#include "runtime/chat_session.h"

namespace ibid {

struct ChatJson {
  // The options of the answer to question number `turn`, counted from 0.
  std::function<TurnOptions(size_t turn)> options;
  // Keeps the conversation after an answer, where it is kept.
  std::function<Status()> keep;
};

// To the end of standard input. The exit status: 0; 1 when anything failed; kInterrupted; kReaderGone.
Result<int> lead_chat_json(ChatSession& session, const ChatJson& chat);

}  // namespace ibid
