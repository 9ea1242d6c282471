#include "runtime/session/turn_call.h"

#include <string>
#include <utility>

#include "runtime/session/message_checks.h"
#include "templates/message.h"

namespace ibid {

TurnCall::TurnCall(ChatSession& session, const TurnOptions& options, std::shared_ptr<Bell> bell)
    : state_(*session.state_), bell_(std::move(bell)), turnstile_(state_), options_(options) {}

Status TurnCall::send(std::string_view message, const TurnCallback& on_event, bool tells) {
  TRY(turnstile_.status());
  TRY(check_text("the message", message));
  const size_t n_messages = state_.branch.dialogue.messages().size();
  return begin(Proposal::of(n_messages, make_message(Role::kUser, std::string(message))), on_event, tells);
}

Status TurnCall::answer(const TurnCallback& on_event, bool tells) {
  TRY(turnstile_.status());
  const Dialogue& dialogue = state_.branch.dialogue;
  if (!dialogue.awaits_answer()) return {ErrorCode::kInvalidArgument, "no message awaits an answer"};
  return begin({.n_kept = dialogue.messages().size()}, on_event, tells);
}

Status TurnCall::regenerate(const TurnCallback& on_event, bool tells) {
  TRY(turnstile_.status());
  const MessageList& messages = state_.branch.dialogue.messages();
  if (messages.empty() || !is_from(messages.back(), Role::kAssistant)) {
    return {ErrorCode::kInvalidArgument, "there is no answer to generate again"};
  }
  return begin({.n_kept = messages.size() - 1, .goes_back = true}, on_event, tells);
}

Status TurnCall::edit(size_t message, std::string_view text, const TurnCallback& on_event, bool tells) {
  TRY(turnstile_.status());
  TRY(check_text("the message", text));
  const MessageList& messages = state_.branch.dialogue.messages();
  if (message >= messages.size() || !is_from(messages[message], Role::kUser)) {
    return {ErrorCode::kInvalidArgument, "message " + std::to_string(message) + " is no user message"};
  }
  Proposal proposal = Proposal::of(message, make_message(Role::kUser, std::string(text)));
  proposal.goes_back = true;
  return begin(std::move(proposal), on_event, tells);
}

Status TurnCall::begin(Proposal proposal, const TurnCallback& on_event, bool tells) {
  turn_.emplace(state_.branch, state_.setting(), options_, bell_);
  Status status = turn_->begin(std::move(proposal), on_event, tells);
  if (!status.ok()) turn_.reset();
  return status;
}

Result<Turn> TurnCall::finish(const TurnCallback& on_event, const ReplyParser::Listener& on_part) {
  Result<Turn> turn = turn_->finish(on_event, on_part);
  turn_.reset();
  if (turn.ok()) state_.begin_after_turn();
  return turn;
}

Result<Turn> TurnCall::run(const TurnCallback& on_event) {
  while (!hear(on_event)) {
    TRY(state_.engine->check_process());
    bell_->wait();
  }
  return finish(on_event);
}

}  // namespace ibid
