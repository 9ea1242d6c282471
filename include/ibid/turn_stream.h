// TurnStream: pulls an answer piece by piece, for programs in which a callback is inconvenient.
//   TurnStream stream(chat, "Hello!");
//   while (std::optional<std::string> piece = stream.next()) std::cout << *piece;
//   Result<Turn> turn = stream.finish();
// The engine computes the turn from the constructor on, whether or not the program pulls it, and buffers at most one
// answer. A stream has no thread, so one thread can pull any number of streams. They may share a Waker (`waker`), which
// wakes that thread when one of them has new events:
//   while (!all_over) {
//     for (TurnStream& stream : streams) while (auto piece = stream.poll()) show(*piece);
//     waker->wait();
//   }
// Until the stream is over, the session is busy and the answer is not part of the conversation. A stream ends only in a
// call of next(), poll() or finish(), or in the destructor. The session must outlive it. One thread at a time uses a
// stream, except that any thread may call cancel().
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ibid/chat_session.h"
#include "ibid/result.h"
#include "ibid/turn.h"
#include "ibid/waker.h"

namespace ibid {

class IBID_EXPORT TurnStream {
 public:
  // Begins a turn as ChatSession::run() does. If the turn cannot begin, the stream is over at once, and finish()
  // returns the error. waker: nullptr, or a Waker that several streams share; the pulling thread waits for it.
  TurnStream(ChatSession& session, const TurnStart& start, TurnOptions options = TurnOptions(),
             std::shared_ptr<Waker> waker = nullptr);
  TurnStream(ChatSession& session, std::string_view message, TurnOptions options = TurnOptions(),
             std::shared_ptr<Waker> waker = nullptr)
      : TurnStream(session, TurnStart::send(message), std::move(options), std::move(waker)) {}
  ~TurnStream();  // cancels the turn, and waits for its end
  TurnStream(TurnStream&&) noexcept;
  TurnStream& operator=(TurnStream&&) = delete;

  // Waits for and returns the next whole characters of the answer; nullopt: the turn is over.
  std::optional<std::string> next();
  // As next(), but does not wait. nullopt: no new text yet, or the turn is over.
  std::optional<std::string> poll();
  // Returns the next event without waiting: prefill, log-probabilities, and text or its parts. Do not combine it with
  // next() or poll(). Log-probabilities of tokens that end the answer may be in the finished turn only.
  std::optional<TurnEvent> poll_event();
  // Returns the turn as known at its start: usage.n_prompt, seed, left_out and lost_prefix. nullptr: no turn runs.
  const Turn* begun() const;
  // True if the turn is over and all pieces were pulled. Like poll(), it takes new events from the engine.
  bool is_over();

  // Ends the answer at the current token, like the stop token of the options. Earlier text can still be pulled.
  void cancel();

  // Waits for the end of the turn and returns its result, as ChatSession::run() would. Drops pieces that were not
  // pulled. REQUIRES: called once.
  Result<Turn> finish();

 private:
  class Pulled;
  std::unique_ptr<Pulled> pulled_;  // null if there was no memory for it; the stream is then over from the start
};

}  // namespace ibid
