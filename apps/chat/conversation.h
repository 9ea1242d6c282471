// A conversation in the terminal: messages and slash commands (chat_command.h).
//
// Commands lose no messages: replaced messages stay as a branch (branches.h). A conversation that is saved under a name
// is written before each answer begins, with the question, and after every change. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/chat/attached_files.h"
#include "apps/chat/branches.h"
#include "apps/chat/screen.h"
#include "base/result.h"

namespace ibid {

// Distance between the seeds of consecutive turns with --seed. Each attempt at an answer adds one to the seed of its
// turn, so up to this many attempts do not use seeds of other turns.
inline constexpr uint64_t kSeedsOfATurn = 1000;

// Asks the user a question and returns the line typed; nullopt: Ctrl-C or end of input.
using AskPerson = std::function<std::optional<std::string>(const std::string& question)>;

struct ConversationOptions {
  TurnOptions turn;
  Result<SessionFiles> files;             // directory for /save, or the reason why it does not exist
  std::optional<SavedConversation> kept;  // files of the saved conversation; nullopt: the conversation is not saved
  bool commands = false;                  // interactive: a line may be a command, and @FILE attaches a file
  bool verbose = false;                   // show the speed of each answer
  AskPerson ask_person;
};

// The state that all commands share: the branches, the saved conversation, the options of the next answers, and the
// screen.
struct ConversationState {
  // The next step after a line.
  enum class Next { kGoOn, kLeave, kInterrupted };

  // The screen `where` must outlive the state.
  ConversationState(std::unique_ptr<ChatBackend> backend, ConversationOptions options, Screen& where);
  ConversationState(const ConversationState&) = delete;
  ConversationState& operator=(const ConversationState&) = delete;

  void note(const std::string& text) { screen.note(text); }
  void fail(const Status& status);
  // Drops the oldest branches above the limit, and saves the conversation if it has a name.
  void save();

  Branches branches;
  TurnOptions turn_options;
  Result<SessionFiles> files;
  std::optional<SavedConversation> kept;
  const bool commands;
  const bool verbose;
  const AskPerson ask_person;
  Screen& screen;
  std::vector<Branches::Place> answers;  // answers that the last /answers generated
  std::vector<AttachedFile> attached;    // files that /read attached, for the next message
  size_t n_lines = 0;                    // number of the current message, for errors in messages from a pipe
  bool any_failed = false;
};

class ConversationCommands {
 public:
  using Next = ConversationState::Next;

  // `state` must outlive the object.
  explicit ConversationCommands(ConversationState& state) : state_(state) {}

 protected:
  ChatBackend& now() { return state_.branches.now(); }
  const Json& messages() const { return state_.branches.messages(); }
  void note(const std::string& text) { state_.note(text); }

  ConversationState& state_;
};

// Sends messages, and runs the commands that generate answers (/regen, /continue, /edit, /answers) or attach files
// (/read). Replaced messages stay as a branch.
class AnswerCommands : public ConversationCommands {
 public:
  using ConversationCommands::ConversationCommands;

  // Sends a typed message, with the files that it names and those that /read attached.
  Next message(std::string_view text);
  // Sends `text` at the end of the current branch. what: name of the undo step; empty: no undo step is added. sent: set
  // to true if the text was answered.
  Next send(const std::string& text, const std::string& what, bool& sent);

  Next regenerate(std::string_view);
  Next continue_answer(std::string_view);
  Next edit(std::string_view argument);
  Next several_answers(std::string_view argument);
  Next read(std::string_view argument);

 private:
  using AskModel = std::function<Result<Turn>(const TurnOptions& options, const TurnCallback& show)>;

  // Streams the answer to the message with index `question`. Returns nullopt if the answer failed, or was stopped
  // before its first token.
  std::optional<Turn> answer(size_t question, size_t attempt, const AskModel& ask, bool& interrupted);
  // Returns the options of an answer, with a seed of its own for each turn and attempt.
  TurnOptions options_of(size_t question, size_t attempt) const;
  size_t next_attempt(size_t question);
  size_t n_turns_before(size_t message) const;
  // Returns a copy of the conversation if a message of n_bytes may fill the context, so that older messages are
  // dropped; else nullptr.
  std::unique_ptr<ChatBackend> copy_if_context_may_overflow(size_t n_bytes);
  // Saves the question in a named conversation before the model receives it.
  void keep_question(const std::string& text);
  void fail_turn(const Status& status);  // shows the error, unless Ctrl-C caused it

  size_t attempted_question_ = SIZE_MAX;  // index of the question that was passed to the last next_attempt()
  size_t last_attempt_ = 0;
  size_t n_answers_shown_ = 0;
};

// Commands that switch to another branch or place, start a new conversation, or save the conversation under a name.
class BranchCommands : public ConversationCommands {
 public:
  using ConversationCommands::ConversationCommands;

  Next choose(std::string_view argument);
  Next undo(std::string_view);
  Next redo(std::string_view);
  Next fork(std::string_view);
  Next back(std::string_view);
  Next list_branches(std::string_view);
  Next go_to(std::string_view argument);
  Next clear(std::string_view);
  Next system(std::string_view argument);
  Next keep_as(std::string_view argument);

 private:
  void go(Branches::Place place, const std::string& what, const std::string& words);
  // Before a named conversation is restarted, asks under which name to save it. Returns false if the user cancels or
  // saving fails.
  bool offer_to_save();
  Next begin_anew(const std::function<Status(ChatBackend&)>& change, const std::string& what, const std::string& words);

  std::vector<Branches::Place> forks_;  // places where /fork was used
};

// Commands that show information, or set options of the next answers.
class SettingCommands : public ConversationCommands {
 public:
  using ConversationCommands::ConversationCommands;

  Next help(std::string_view argument);
  Next history(std::string_view argument);
  Next pin(std::string_view argument);
  Next set(std::string_view argument);
  Next show_settings(std::string_view argument);
  Next when_full(std::string_view argument);
  Next show_model(std::string_view);
  Next show_stats(std::string_view);

  // Shows the last question and answer, cut to the size of the screen, when a conversation is resumed.
  void show_last_exchange();

 private:
  void list_settings();
  Status set_option(const SamplingOption& option, std::string_view value);
  std::string value_text(const SamplingOption& option);
};

// Dispatches lines to messages and commands.
class Conversation {
 public:
  using Next = ConversationState::Next;

  Conversation(std::unique_ptr<ChatBackend> backend, ConversationOptions options, Screen& screen);

  // Handles one line, a message or a command. On failure shows the error and leaves the conversation unchanged.
  Next handle(const std::string& line);
  // Sends the message of --prompt and --file before any input is read. It is not a command even if it begins with a
  // slash.
  Next open_with(const std::string& message);

  bool any_failed() const { return state_.any_failed; }
  const ChatBackend& backend() const { return state_.branches.now(); }

  // --- The command classes, for the functions in the table of commands (chat_command.cc).
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
