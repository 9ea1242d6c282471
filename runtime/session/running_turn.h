// RunningTurn: leads a turn from its plan to its commit, on the caller's thread. It plans the prompt, has the
// engine compute the answer, lets the caller hear of it, and makes it a part of the conversation. Between begin()
// and finish() the caller's thread may do what it likes; the session's keys and values belong to the answer
// meanwhile.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/answer/answer.h"
#include "runtime/session/session_state.h"

namespace ibid {

class ChatSession::State::RunningTurn {
 public:
  // `options` must outlive it.
  RunningTurn(State& state, const TurnOptions& options, std::shared_ptr<Bell> bell)
      : state_(state), options_(options), bell_(std::move(bell)) {}
  // A turn that was begun and not finished is cancelled, and leaves nothing behind.
  ~RunningTurn();
  RunningTurn(const RunningTurn&) = delete;
  RunningTurn& operator=(const RunningTurn&) = delete;

  // Begins to answer the messages of the session, the last of which is a question. tells: somebody will hear the
  // turn. After an error everything is as before.
  Status begin(const TurnCallback& on_event, bool tells);

  // Calls on_event for what has happened since the last call. Returns true when the answer is over. The bell rings
  // when there is more. even_stopped: as in Answer::hear().
  bool hear(const TurnCallback& on_event, bool even_stopped = false);
  // The same for a caller that reads text whenever it likes; a cancelled answer ends where it is.
  bool is_over() const { return answer_->is_over(); }
  std::vector<AnswerEvent> take_events() { return answer_->take_events(); }
  void cancel() { answer_->cancel(); }

  // Call it when the answer is over. Commits the turn; after an error everything is as before.
  Result<Turn> finish(const TurnCallback& on_event);

 private:
  Status try_begin(const TurnCallback& on_event, bool tells);
  Result<Turn> try_finish(const TurnCallback& on_event);
  GenerateRequest request_answer(bool tells);
  Answer::Listener told_to(const TurnCallback& on_event);
  // Gives the session its keys and values back.
  void take_entry_back() noexcept;
  void wait() const;

  State& state_;
  const TurnOptions& options_;
  const std::shared_ptr<Bell> bell_;
  int64_t start_ns_ = 0;
  Turn turn_;
  BeforeTurn before_;
  std::optional<KvCacheEntry> entry_;  // the answer's
  size_t copied_before_ = 0;           // pages of it
  size_t n_arranged_ = 0;              // positions that it had
  bool counts_ = false;                // its sampler looks back
  std::unique_ptr<Answer> answer_;     // submitted, not finished
};

}  // namespace ibid
