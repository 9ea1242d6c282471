// TurnStream: an answer that is pulled piece by piece, where a callback does not fit.
//
//   TurnStream stream(chat, "Hello!");
//   while (std::optional<std::string> piece = stream.next()) std::cout << *piece;
//   Result<Turn> turn = stream.finish();
//
// The turn begins with the stream, and the engine computes it whether it is pulled or not; at most one answer piles
// up. No thread stands behind a stream, so one thread can pull any number of them. Streams that share a bell ring
// it when one of them has something new.
//
//   while (!all_over) {
//     for (TurnStream& stream : streams) while (auto piece = stream.poll()) show(*piece);
//     bell->wait();
//   }
//
// Until the stream is over, the session is busy and the answer is no part of the conversation. A stream comes to
// its end only in a call of next(), poll() or finish(), or in the destructor. The session must outlive the stream.
// A stream is for one thread at a time; cancel() is for any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ibid/bell.h"
#include "ibid/chat_session.h"
#include "ibid/result.h"
#include "ibid/turn.h"

namespace ibid {

class IBID_EXPORT TurnStream {
 public:
  // Begins a turn as ChatSession::run() does. A turn that cannot begin is over at once, and finish() returns why.
  // bell: nullptr, or one that several streams share; the thread that pulls them waits for it.
  TurnStream(ChatSession& session, const TurnStart& start, TurnOptions options = TurnOptions(),
             std::shared_ptr<Bell> bell = nullptr);
  TurnStream(ChatSession& session, std::string_view message, TurnOptions options = TurnOptions(),
             std::shared_ptr<Bell> bell = nullptr)
      : TurnStream(session, TurnStart::send(message), std::move(options), std::move(bell)) {}
  ~TurnStream();  // cancels, and waits for the end of the turn
  TurnStream(TurnStream&&) noexcept;
  TurnStream& operator=(TurnStream&&) = delete;

  // The next whole characters of the answer; waits for them. Nothing: the turn is over.
  std::optional<std::string> next();
  // The same without waiting. Nothing: there are none yet, or the turn is over.
  std::optional<std::string> poll();
  // The next event, without waiting: prefill, log-probabilities, and text or its parts. A caller of poll_event() calls
  // neither next() nor poll(). Log-probabilities of tokens that end the answer may come with the turn alone.
  std::optional<TurnEvent> poll_event();
  // The turn as known from its beginning on: usage.n_prompt, seed, left_out and lost_prefix. nullptr: it could not
  // begin, or it is over.
  const Turn* begun() const;
  // Whether the turn is over and everything was pulled. Like poll() it takes up what is new.
  bool is_over();

  // Ends the answer where it is, as the stop token of the options does. The text up to there can still be pulled.
  void cancel();

  // How the turn ended, as the call would have said it; waits for the end. Pieces that were not pulled are dropped.
  // REQUIRES: called once.
  Result<Turn> finish();

 private:
  class Pulled;
  std::unique_ptr<Pulled> pulled_;  // null: there was no memory for it, and the turn is over
};

}  // namespace ibid
