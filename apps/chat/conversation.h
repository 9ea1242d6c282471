// A conversation as the terminal leads it: messages, and the commands that begin with a slash (chat_command.h).
//
// Nothing that was said is lost: what a command replaces stays as a branch (branches.h). If the conversation is
// kept under a name, a question is in the file before its answer begins, and everything else as soon as it has
// happened.
//
// It tells messages from commands. The commands themselves are in three classes by what they are about.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "apps/chat/answer_commands.h"
#include "apps/chat/branch_commands.h"
#include "apps/chat/conversation_state.h"
#include "apps/chat/setting_commands.h"

namespace ibid {

class Conversation {
 public:
  using Options = ConversationOptions;
  Conversation(std::unique_ptr<Talk> talk, Options options, Screen& screen);

  using Next = ConversationState::Next;
  // One line: a message, or a command. Failures are shown, and the conversation stands as before.
  Next handle(const std::string& line);
  // A message as it is, whatever it begins with: what --prompt and --file say before anybody types.
  Next open_with(const std::string& message);

  bool any_failed() const { return state_.any_failed; }
  const Talk& talk() const { return state_.now(); }
  // Shows what a person who comes back wants to see first.
  void show_last_exchange() { settings_.show_last_exchange(); }

  // --- for the table of commands
  AnswerCommands& answers() { return answers_; }
  BranchCommands& branches() { return branches_; }
  SettingCommands& settings() { return settings_; }

 private:
  Next command(std::string_view line);

  ConversationState state_;
  AnswerCommands answers_{state_};
  BranchCommands branches_{state_};
  SettingCommands settings_{state_};
};

}  // namespace ibid
