// A conversation as the terminal leads it: messages and the commands that begin with a slash.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "apps/chat/screen.h"
#include "base/result.h"
#include "runtime/chat_session.h"

namespace ibid {

class Conversation {
 public:
  Conversation(ChatSession session, TurnOptions options, Screen& screen);

  enum class Next { kGoOn, kLeave, kInterrupted };
  // One line: a message, or a command. Failures are shown, and the conversation stands as before.
  Next handle(const std::string& line, bool commands);

  bool any_failed() const { return any_failed_; }

 private:
  Next command(std::string_view name, std::string_view argument);
  Next answer(bool again, std::string_view message);
  void undo();
  void fork();
  void back();
  void show_stats() const;
  void fail(const Status& status);
  size_t n_turns() const;

  ChatSession session_;
  std::vector<ChatSession> parents_;  // left by /fork, returned to by /back
  const TurnOptions options_;
  Screen& screen_;
  bool any_failed_ = false;
};

}  // namespace ibid
