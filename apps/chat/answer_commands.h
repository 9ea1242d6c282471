// What a person says, and the commands that have the model answer it: /regen, /edit, /answers; and /read,
// whose files go along with a message. What an answer replaces stays as a branch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "apps/chat/conversation_state.h"

namespace ibid {

class AnswerCommands {
 public:
  using Next = ConversationState::Next;

  // `state` must outlive it.
  explicit AnswerCommands(ConversationState& state) : state_(state) {}

  // What a person typed: with the files that it names, and those that wait.
  Next message(std::string_view text);
  // Says `text` at the end of the present branch. what: as /undo names it; empty: no step of its own.
  Next say(const std::string& text, const std::string& what, bool& said);

  Next regenerate(std::string_view);
  Next edit(std::string_view argument);
  Next several_answers(std::string_view argument);
  Next read(std::string_view argument);

 private:
  using AskModel = std::function<Result<Turn>(const TurnOptions& options, const TurnCallback& show)>;

  // The answer to the question with this number, as it comes. none: it failed, or was stopped before its
  // first word.
  std::optional<Turn> answer(size_t question, size_t attempt, const AskModel& ask, bool& interrupted);
  // The options of an answer to this question. Each turn has a stream of random numbers of its own, each
  // attempt too.
  TurnOptions options_of(size_t question, size_t attempt) const;
  size_t next_attempt(size_t question);
  size_t n_turns_before(size_t message) const;
  // A copy of the conversation where a message of so many bytes may make a full context drop some of it.
  std::unique_ptr<Talk> copy_if_room_is_short(size_t n_bytes);
  // Writes the question to the file of a kept conversation, before the model sees it.
  void keep_question(const std::string& text);
  void fail_turn(const Status& status);  // where Ctrl-C is no failure

  Talk& now() { return state_.now(); }
  const Json& messages() const { return state_.messages(); }
  void note(const std::string& text) { state_.note(text); }

  ConversationState& state_;
  size_t attempted_question_ = SIZE_MAX;  // the last /regen
  size_t last_attempt_ = 0;
  size_t n_answers_shown_ = 0;
};

}  // namespace ibid
