// A conversation as the terminal leads it: messages, and the commands that begin with a slash (chat_command.h).
//
// Nothing that was said is lost: what a command replaces stays as a branch (branches.h). If the conversation is
// kept under a name, a question is in the file before its answer begins, and everything else as soon as it has
// happened.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/chat/attached_files.h"
#include "apps/chat/branches.h"
#include "apps/chat/kept_conversation.h"
#include "apps/chat/screen.h"
#include "base/result.h"
#include "runtime/session/chat_session.h"

namespace ibid {

class Conversation {
 public:
  // Asks the person something and returns the line that is the answer; nullopt: Ctrl-C, or the end of the input.
  using AskPerson = std::function<std::optional<std::string>(const std::string& question)>;

  struct Options {
    TurnOptions turn;
    Result<SessionFiles> files;            // where /save keeps it, or why it cannot
    std::optional<KeptConversation> kept;  // none: it is kept nowhere
    bool commands = false;                 // a person types: lines may be commands, and @FILE is a file
    bool verbose = false;                  // how fast each answer was is said
    AskPerson ask_person;
  };
  Conversation(ChatSession session, Options options, Screen& screen);

  enum class Next { kGoOn, kLeave, kInterrupted };
  // One line: a message, or a command. Failures are shown, and the conversation stands as before.
  Next handle(const std::string& line);
  // A message as it is, whatever it begins with: what --prompt and --file say before anybody types.
  Next open_with(const std::string& message);

  bool any_failed() const { return any_failed_; }
  const ChatSession& session() const { return branches_.now(); }

  // Shows what a person who comes back wants to see first: the last question and its answer, cut to the screen.
  void show_last_exchange();

  // --- the commands, each with what stands behind its name (conversation_*.cc)

  Next regenerate(std::string_view);
  Next edit(std::string_view argument);
  Next several_answers(std::string_view argument);
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
  Next read(std::string_view argument);
  Next history(std::string_view argument);
  Next pin(std::string_view argument);
  Next set(std::string_view argument);
  Next show_settings(std::string_view argument);
  Next when_full(std::string_view argument);
  Next show_model(std::string_view);
  Next show_stats(std::string_view);
  Next help(std::string_view argument);
  Next leave(std::string_view) { return Next::kLeave; }

 private:
  using AskModel = std::function<Result<Turn>(const TurnOptions& options, const TurnCallback& show)>;

  ChatSession& now() { return branches_.now(); }
  const Json& messages() const { return branches_.messages(); }

  Next command(std::string_view line);
  Next message(std::string_view text);
  // Says `text` at the end of the present branch. what: as /undo names it; empty: no step of its own.
  Next say(const std::string& text, const std::string& what, bool& said);
  // The answer to the question with this number, as it comes. none: it failed, or was stopped before its first word.
  std::optional<Turn> answer(size_t question, size_t attempt, const AskModel& ask, bool& interrupted);
  // The options of an answer to this question. Each turn has a stream of random numbers of its own, each attempt too.
  TurnOptions options_of(size_t question, size_t attempt) const;
  size_t next_attempt(size_t question);
  size_t n_turns_before(size_t message) const;
  // A copy of the conversation where a message of so many bytes may make a full context drop some of it.
  std::optional<ChatSession> copy_if_room_is_short(size_t n_bytes);
  // Writes the question to the file of a kept conversation, before the model sees it.
  void keep_question(const std::string& text);

  // Asks where a kept conversation goes that is about to begin anew. False: it stays as it is.
  bool make_way();
  Next begin_anew(const std::function<Status(ChatSession&)>& change, const std::string& what, const std::string& note);
  void go(Branches::Place place, const std::string& what, const std::string& note);
  void list_settings();

  void save();
  void note(const std::string& text) { screen_.note(text); }
  void fail(const Status& status);
  void fail_turn(const Status& status);  // the same, where Ctrl-C is no failure

  Branches branches_;
  TurnOptions turn_options_;
  Result<SessionFiles> files_;
  std::optional<KeptConversation> kept_;
  const bool commands_;
  const bool verbose_;
  const AskPerson ask_person_;
  Screen& screen_;
  std::vector<Branches::Place> forks_;    // where /fork was said
  std::vector<Branches::Place> answers_;  // of the last /answers
  std::vector<AttachedFile> attached_;    // by /read, for the next message
  size_t attempted_question_ = SIZE_MAX;  // the last /regen
  size_t last_attempt_ = 0;
  size_t n_lines_ = 0;                    // from a pipe: which message this is
  size_t n_answers_shown_ = 0;
  bool any_failed_ = false;
};

}  // namespace ibid
