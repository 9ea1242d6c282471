// A conversation as the terminal leads it: messages, and the commands that begin with a slash (chat_command.h).
//
// Nothing that was said is lost: a command leaves the messages that it replaces as a branch (branches.h). If the
// conversation is kept under a name, a question is in the file before its answer begins, and everything else as soon as
// it has happened. For one thread.
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

// The distance between the seeds of two turns of a conversation with --seed. Each turn has streams of random
// numbers of its own, one for each attempt at an answer, and this many before they meet the next turn's.
inline constexpr uint64_t kSeedsOfATurn = 1000;

// Asks the person something and returns the line that is the answer; nullopt: Ctrl-C, or the end of the input.
using AskPerson = std::function<std::optional<std::string>(const std::string& question)>;

struct ConversationOptions {
  TurnOptions turn;
  Result<SessionFiles> files;            // where /save keeps it, or why it cannot
  std::optional<KeptConversation> kept;  // none: it is kept nowhere
  bool commands = false;                 // a person types: lines may be commands, and @FILE is a file
  bool verbose = false;                  // how fast each answer was is said
  AskPerson ask_person;
};

// The state that all commands work on: the branches, the name the conversation is kept under, the settings of its next
// answers, and the screen.
struct ConversationState {
  // The step after a line.
  enum class Next { kGoOn, kLeave, kInterrupted };

  // `where` must outlive it.
  ConversationState(std::unique_ptr<Talk> talk, ConversationOptions options, Screen& where);
  ConversationState(const ConversationState&) = delete;
  ConversationState& operator=(const ConversationState&) = delete;

  void note(const std::string& text) { screen.note(text); }
  // Shows what went wrong.
  void fail(const Status& status);
  // Forgets the oldest of too many branches, and writes what has changed if the conversation is kept.
  void save();

  Branches branches;
  TurnOptions turn_options;
  Result<SessionFiles> files;
  std::optional<KeptConversation> kept;
  const bool commands;
  const bool verbose;
  const AskPerson ask_person;
  Screen& screen;
  std::vector<Branches::Place> answers;  // of the last /answers
  std::vector<AttachedFile> attached;    // by /read, for the next message
  size_t n_lines = 0;                    // from a pipe: which message this is
  bool any_failed = false;
};

// The base of the classes of commands.
class ConversationCommands {
 public:
  using Next = ConversationState::Next;

  // `state` must outlive it.
  explicit ConversationCommands(ConversationState& state) : state_(state) {}

 protected:
  Talk& now() { return state_.branches.now(); }
  const Json& messages() const { return state_.branches.messages(); }
  void note(const std::string& text) { state_.note(text); }

  ConversationState& state_;
};

// Messages, and the commands that have the model answer: /regen, /edit, /answers; and /read,
// whose files go along with a message. The messages that an answer replaces stay as a branch.
class AnswerCommands : public ConversationCommands {
 public:
  using ConversationCommands::ConversationCommands;

  // A message as it was typed: with the files that it names, and those that wait.
  Next message(std::string_view text);
  // Says `text` at the end of the present branch. what: as /undo names it; empty: no step of its own.
  Next say(const std::string& text, const std::string& what, bool& said);

  Next regenerate(std::string_view);
  Next edit(std::string_view argument);
  Next several_answers(std::string_view argument);
  Next read(std::string_view argument);

 private:
  using AskModel = std::function<Result<Turn>(const TurnOptions& options, const TurnCallback& show)>;

  // The answer to the question with this number, as it comes. nullopt: it failed, or was stopped before its first word.
  std::optional<Turn> answer(size_t question, size_t attempt, const AskModel& ask, bool& interrupted);
  // The options of an answer to this question. Each turn and each attempt has random numbers of its own.
  TurnOptions options_of(size_t question, size_t attempt) const;
  size_t next_attempt(size_t question);
  size_t n_turns_before(size_t message) const;
  // A copy of the conversation where a message of so many bytes may make a full context drop some of it.
  std::unique_ptr<Talk> copy_if_room_is_short(size_t n_bytes);
  // Writes the question to the file of a kept conversation, before the model sees it.
  void keep_question(const std::string& text);
  void fail_turn(const Status& status);  // where Ctrl-C is no failure

  size_t attempted_question_ = SIZE_MAX;  // the last /regen
  size_t last_attempt_ = 0;
  size_t n_answers_shown_ = 0;
};

// The commands that go to another place of the conversation, begin a new one, or keep it under a name.
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
  // Asks where a kept conversation goes that is about to begin anew. False: it stays as it is.
  bool make_way();
  Next begin_anew(const std::function<Status(Talk&)>& change, const std::string& what, const std::string& words);

  std::vector<Branches::Place> forks_;  // where /fork was said
};

// The commands that show something, or that set how the next answers come about.
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

  // Shows a person who comes back the last question and its answer, cut to the screen.
  void show_last_exchange();

 private:
  void list_settings();
  Status set_option(const SamplingOption& option, std::string_view value);
  std::string value_text(const SamplingOption& option);
};

// Tells messages from commands.
class Conversation {
 public:
  using Next = ConversationState::Next;

  Conversation(std::unique_ptr<Talk> talk, ConversationOptions options, Screen& screen);

  // One line: a message, or a command. Failures are shown, and the conversation stands as before.
  Next handle(const std::string& line);
  // A message as it is, whatever it begins with: what --prompt and --file say before anybody types.
  Next open_with(const std::string& message);

  bool any_failed() const { return state_.any_failed; }
  const Talk& talk() const { return state_.branches.now(); }

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
