// A conversation as the terminal leads it: messages and the commands that begin with a slash.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/chat/screen.h"
#include "base/result.h"
#include "runtime/chat_session.h"

namespace ibid {

class Conversation {
 public:
  // save_path: where the conversation is kept after every change; empty: nowhere.
  Conversation(ChatSession session, TurnOptions options, std::string save_path, Screen& screen);

  enum class Next { kGoOn, kLeave, kInterrupted };
  // One line: a message, or a command. Failures are shown, and the conversation stands as before.
  Next handle(const std::string& line, bool commands);

  bool any_failed() const { return any_failed_; }

 private:
  Next command(std::string_view name, std::string_view argument);
  using Ask = std::function<Result<Turn>(const TurnOptions& options, const TurnCallback& show)>;
  Next answer(const Ask& ask);
  Next edit(std::string_view argument);
  Next several_answers(std::string_view argument);
  void choose(std::string_view argument);
  void pin(std::string_view argument);
  void show_history() const;
  void undo();
  void fork();
  void back();
  void show_stats() const;
  void save();
  void fail(const Status& status);
  void fail_turn(const Status& status);  // the same, where Ctrl-C is no failure
  size_t n_turns() const;

  ChatSession session_;
  std::vector<ChatSession> parents_;  // left by /fork, returned to by /back
  const TurnOptions options_;
  const std::string save_path_;
  Screen& screen_;
  bool any_failed_ = false;
};

}  // namespace ibid
