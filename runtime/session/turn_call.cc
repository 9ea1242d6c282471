#include "runtime/session/turn_call.h"

#include <new>
#include <string>
#include <utility>

#include "runtime/out_of_heap.h"
#include "runtime/session/context_policy.h"
#include "runtime/session/message_checks.h"

namespace ibid {

TurnCall::TurnCall(ChatSession& session, const TurnOptions& options, std::shared_ptr<Bell> bell)
    : state_(*session.state_), bell_(std::move(bell)), turnstile_(state_), options_(options) {}

TurnCall::~TurnCall() {
  turn_.reset();
  put_back();
}

Status TurnCall::send(std::string_view message, const TurnCallback& on_event, bool tells) {
  TRY(turnstile_.status());
  TRY(check_text("the message", message));
  replace_tail(state_.messages.size(), text_message("user", std::string(message)));
  return begin(on_event, tells);
}

Status TurnCall::answer(const TurnCallback& on_event, bool tells) {
  TRY(turnstile_.status());
  if (!state_.awaits_answer()) return {ErrorCode::kInvalidArgument, "no message awaits an answer"};
  return begin(on_event, tells);
}

Status TurnCall::regenerate(const TurnCallback& on_event, bool tells) {
  TRY(turnstile_.status());
  const Json& messages = state_.messages;
  if (messages.empty() || !is_from(messages.back(), "assistant")) {
    return {ErrorCode::kInvalidArgument, "there is no answer to generate again"};
  }
  replace_tail(messages.size() - 1, Json());
  state_.rewound = true;
  return begin(on_event, tells);
}

Status TurnCall::edit(size_t message, std::string_view text, const TurnCallback& on_event, bool tells) {
  TRY(turnstile_.status());
  TRY(check_text("the message", text));
  const Json& messages = state_.messages;
  if (message >= messages.size() || !is_from(messages[message], "user")) {
    return {ErrorCode::kInvalidArgument, "message " + std::to_string(message) + " is no user message"};
  }
  replace_tail(message, text_message("user", std::string(text)));
  state_.rewound = true;
  return begin(on_event, tells);
}

// What needs memory comes first, and a message takes the place of another or is the only one that is added.
void TurnCall::replace_tail(size_t n_kept, Json question) {
  Before before;
  before.n_kept = n_kept;
  before.pinned = state_.pinned;
  before.rewound = state_.rewound;
  before.n_numbered = state_.n_numbered;
  const size_t n_taken = state_.messages.size() - n_kept;
  before.tail.reserve(n_taken);
  if (n_taken == 0) {
    state_.messages.push_back(std::move(question));
    before_ = std::move(before);
    return;
  }
  for (size_t i = n_kept; i < state_.messages.size(); ++i) before.tail.push_back(std::move(state_.messages[i]));
  before_ = std::move(before);
  state_.cut_messages(n_kept);
  if (!question.is_null()) state_.messages.push_back(std::move(question));
}

Status TurnCall::begin(const TurnCallback& on_event, bool tells) {
  turn_.emplace(state_, options_, bell_);
  Status status = turn_->begin(on_event, tells);
  if (!status.ok()) {
    turn_.reset();
    put_back();
  }
  return status;
}

Result<Turn> TurnCall::finish(const TurnCallback& on_event) {
  Result<Turn> turn = turn_->finish(on_event);
  turn_.reset();
  if (turn.ok()) before_.reset();
  put_back();
  return turn;
}

Result<Turn> TurnCall::run(const TurnCallback& on_event) {
  while (!hear(on_event)) {
    TRY(state_.engine->check_process());
    bell_->wait();
  }
  return finish(on_event);
}

// Needs no memory: the messages were as many before.
void TurnCall::put_back() noexcept {
  if (!before_) return;
  state_.cut_messages(before_->n_kept);
  for (Json& message : before_->tail) state_.messages.push_back(std::move(message));
  state_.pinned = std::move(before_->pinned);
  state_.rewound = before_->rewound;
  state_.n_numbered = before_->n_numbered;
  before_.reset();
}

}  // namespace ibid
