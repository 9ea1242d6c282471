// TurnStream: pulls an answer piece by piece, where a callback does not fit.
//
//   TurnStream stream(chat, "Hello!");
//   while (std::optional<std::string> piece = stream.next()) std::cout << *piece;
//   Result<Turn> turn = stream.finish();
//
// The engine computes the turn from the constructor on, whether or not it is pulled, and buffers at most one answer. A
// stream has no thread, so one thread can pull any number of them. Streams that share a bell ring it when they have new
// events.
//
//   while (!all_over) {
//     for (TurnStream& stream : streams) while (auto piece = stream.poll()) show(*piece);
//     bell->wait();
//   }
//
// Until the stream is over, the session is busy and the answer is not part of the conversation. A stream ends only in a
// call of next(), poll() or finish(), or in the destructor. The session must outlive it. One thread at a time, but any
// thread may call cancel().
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
  // Begins a turn as ChatSession::run() does. If it cannot begin, the stream is over at once, and finish() returns the
  // error. bell: nullptr, or one that several streams share; the thread that pulls them waits for it.
  TurnStream(ChatSession& session, const TurnStart& start, TurnOptions options = TurnOptions(),
             std::shared_ptr<Waker> bell = nullptr);
  TurnStream(ChatSession& session, std::string_view message, TurnOptions options = TurnOptions(),
             std::shared_ptr<Waker> bell = nullptr)
      : TurnStream(session, TurnStart::send(message), std::move(options), std::move(bell)) {}
  ~TurnStream();  // cancels, and waits for the end of the turn
  TurnStream(TurnStream&&) noexcept;
  TurnStream& operator=(TurnStream&&) = delete;

  // Waits for and returns the next whole characters of the answer; nullopt: the turn is over.
  std::optional<std::string> next();
  // As next(), without waiting. nullopt: no text yet, or the turn is over.
  std::optional<std::string> poll();
  // Returns the next event without waiting: prefill, log-probabilities, and text or its parts. Do not mix it with
  // next() or poll(). Log-probabilities of tokens that end the answer may come with the turn only.
  std::optional<TurnEvent> poll_event();
  // The turn as known at its start: usage.n_prompt, seed, left_out and lost_prefix. nullptr: it could not begin, or it
  // is over.
  const Turn* begun() const;
  // True if the turn is over and everything was pulled. Like poll(), it takes new events.
  bool is_over();

  // Ends the answer at the current token, as the stop token of the options does. Text up to there can still be pulled.
  void cancel();

  // Waits for the end and returns the outcome, as ChatSession::run() would. Pieces that were not pulled are dropped.
  // REQUIRES: called once.
  Result<Turn> finish();

 private:
  class Pulled;
  std::unique_ptr<Pulled> pulled_;  // null: its allocation failed; the turn is over
};

}  // namespace ibid
