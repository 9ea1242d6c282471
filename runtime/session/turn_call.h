// TurnCall: one call of a session that gives a turn, from its checks to its end. It changes the messages to those
// that are to be answered, runs the turn, and puts the messages back if the turn fails. The session is busy as long
// as this object lives.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "base/json_limits.h"
#include "base/result.h"
#include "runtime/session/running_turn.h"
#include "runtime/session/session_state.h"
#include "runtime/session/turn.h"
#include "runtime/session/turnstile.h"

namespace ibid {

class TurnCall {
 public:
  // `options` must outlive it. `bell` rings when there is something to hear.
  TurnCall(ChatSession& session, const TurnOptions& options, std::shared_ptr<Bell> bell);
  // A turn that is not finished is cancelled, and leaves nothing behind.
  ~TurnCall();
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
  Status check_process() const { return state_.engine->check_process(); }
  std::vector<AnswerEvent> take_events() { return turn_->take_events(); }
  Result<Turn> finish(const TurnCallback& on_event);

  // Hears the turn to its end.
  Result<Turn> run(const TurnCallback& on_event);

 private:
  // The messages from `n_kept` on as they were.
  struct Before {
    size_t n_kept = 0;
    std::vector<Json> tail;
    std::set<size_t> pinned;
    bool rewound = false;
    size_t n_numbered = 0;
  };

  // Takes the messages from n_kept on away, and puts `question` (null: none) in their place.
  void replace_tail(size_t n_kept, Json question);
  Status begin(const TurnCallback& on_event, bool tells);
  void put_back() noexcept;

  ChatSession::State& state_;
  const std::shared_ptr<Bell> bell_;
  const Turnstile turnstile_;
  std::optional<Before> before_;
  std::optional<ChatSession::State::RunningTurn> turn_;
  const TurnOptions& options_;
};

}  // namespace ibid
