// TurnCall: one call of a session that gives a turn, from its checks to its end: it says which messages are to be
// answered (a Proposal), and has RunningTurn do the rest. The session is busy as long as this object lives.
// For one thread at a time; what it submits runs on the compute thread and rings the bell.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ibid/turn.h"
#include "runtime/session/running_turn.h"
#include "runtime/session/session_state.h"
#include "runtime/session/turnstile.h"

namespace ibid {

class TurnCall {
 public:
  // `options` must outlive it. `bell` rings when there is something to hear.
  TurnCall(ChatSession& session, const TurnOptions& options, std::shared_ptr<Bell> bell);
  // A turn that is not finished is cancelled, and leaves nothing behind.
  ~TurnCall() = default;
  TurnCall(const TurnCall&) = delete;
  TurnCall& operator=(const TurnCall&) = delete;

  // One of these begins the turn; on_event hears what happens before anything is computed. tells: somebody will
  // hear the turn. Errors: those of the session's call of that name. They may also throw std::bad_alloc. In both
  // cases nothing has changed.
  Status send(std::string_view message, const TurnCallback& on_event, bool tells);
  Status answer(const TurnCallback& on_event, bool tells);
  Status regenerate(const TurnCallback& on_event, bool tells);
  Status edit(size_t message, std::string_view text, const TurnCallback& on_event, bool tells);

  // For after one of these calls. They do what those of RunningTurn do (runtime/session/running_turn.h).
  bool hear(const TurnCallback& on_event) { return turn_->hear(on_event); }
  bool is_over() const { return turn_->is_over(); }
  const Turn& beginning() const { return turn_->beginning(); }
  Status check_process() const { return state_.engine->check_process(); }
  std::vector<AnswerEvent> take_events() { return turn_->take_events(); }
  void read_reply(std::string_view text, const ReplyParser::Listener& on_part) { turn_->read_reply(text, on_part); }
  Result<Turn> finish(const TurnCallback& on_event, const ReplyParser::Listener& on_part = {});

  // Hears the turn to its end.
  Result<Turn> run(const TurnCallback& on_event);

 private:
  Status begin(Proposal proposal, const TurnCallback& on_event, bool tells);

  ChatSession::State& state_;
  const std::shared_ptr<Bell> bell_;
  const Turnstile turnstile_;
  const TurnOptions& options_;
  std::optional<RunningTurn> turn_;
};

}  // namespace ibid
